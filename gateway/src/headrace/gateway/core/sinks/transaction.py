"""Transactions, their parts, and the names of sinks and pipelines."""

from dataclasses import dataclass

from headrace.contract.limits import MAX_NAME_BYTES, MAX_SEQUENCE
from headrace.contract.names import is_name
from headrace.gateway.core.base.bounds import check_length
from headrace.gateway.core.base.errors import MalformedMessage
from headrace.protocol.v1 import sink_pb2 as pb


@dataclass(frozen=True, order=True, slots=True)
class Transaction:
    """Everything that one micro-batch of one pipeline writes to one sink, or what one run of the pipeline writes of it."""

    pipeline: str
    batch: int
    run: str = ""
    """The id of the run, for an instance that keeps what several runs write apart; otherwise empty."""

    def to_proto(self) -> pb.Transaction:
        """Converts to the protocol message."""
        return pb.Transaction(pipeline=self.pipeline, batch=self.batch, run=self.run)

    def of_run(self, run: str) -> "Transaction":
        """Returns what a run writes of it, or, if `run` is empty, what all runs write."""
        return Transaction(self.pipeline, self.batch, run)

    @classmethod
    def from_proto(cls, wire: pb.Transaction) -> "Transaction":
        """Converts a transaction from its protocol message.

        Raises:
            MalformedMessage: the message names no pipeline, or the batch number is too large.
        """
        if wire.batch > MAX_SEQUENCE:
            raise MalformedMessage(f"transaction of batch {wire.batch}: the largest is 2^63 - 1")
        return cls(check_pipeline(wire.pipeline), wire.batch, check_length("run", wire.run))

    @property
    def for_logs(self) -> dict[str, str | int]:
        """The keys and values that every log line about it contains."""
        return {"pipeline": self.pipeline, "batch": self.batch, **({"run": self.run} if self.run else {})}

    def __str__(self) -> str:
        return f"batch {self.batch} of pipeline {self.pipeline}"


@dataclass(frozen=True, order=True, slots=True)
class Part:
    """The rows of one Spark task, as delivered by one attempt."""

    transaction: Transaction
    partition: int
    attempt: str

    @property
    def run_id(self) -> str:
        """The id of the pipeline's run that delivered it: an attempt is named `RUN/TRY`."""
        return self.attempt.partition("/")[0]

    def of_run(self, run: str) -> "Part":
        """Returns it as a part of what a run writes, or, if `run` is empty, of what all runs write."""
        return Part(self.transaction.of_run(run), self.partition, self.attempt)

    @property
    def for_logs(self) -> dict[str, str | int]:
        """The keys and values that every log line about it contains."""
        return {**self.transaction.for_logs, "partition": self.partition, "attempt": self.attempt}

    def to_proto(self) -> pb.Part:
        """Converts to the protocol message."""
        return pb.Part(transaction=self.transaction.to_proto(), partition=self.partition, attempt=self.attempt)

    @classmethod
    def from_proto(cls, wire: pb.Part) -> "Part":
        """Converts a part from its protocol message.

        Raises:
            MalformedMessage: the transaction is invalid, or the message names no attempt.
        """
        if not wire.attempt:
            raise MalformedMessage(f"part of partition {wire.partition}: want an attempt of 1 to {MAX_NAME_BYTES} bytes")
        check_length("attempt", wire.attempt)
        return cls(Transaction.from_proto(wire.transaction), wire.partition, wire.attempt)

    def __str__(self) -> str:
        return f"partition {self.partition} of {self.transaction}"


def check_sink(name: str) -> str:
    """Checks and returns the name of a sink.

    Raises:
        MalformedMessage: the name is not valid.
    """
    if not is_name(name):
        raise MalformedMessage(f"sink {name[:80]!r}: want 1 to {MAX_NAME_BYTES} letters, digits and ._-")
    return name


def check_pipeline(name: str) -> str:
    """Checks and returns the name of a pipeline.

    Raises:
        MalformedMessage: the name is empty or too long.
    """
    if not name:
        raise MalformedMessage(f"a pipeline without a name: want one of 1 to {MAX_NAME_BYTES} bytes")
    return check_length("pipeline", name)
