"""Transactions, their parts, and the names of sinks and pipelines."""

from dataclasses import dataclass

from headrace.contract.limits import MAX_NAME_BYTES, MAX_SEQUENCE
from headrace.contract.names import is_name
from headrace.gateway.core.bounds import check_length
from headrace.gateway.core.errors import MalformedMessage
from headrace.protocol.v1 import sink_pb2 as pb


@dataclass(frozen=True, order=True, slots=True)
class Transaction:
    """What one micro-batch of one pipeline writes to one sink."""

    pipeline: str
    batch: int

    def to_proto(self) -> pb.Transaction:
        """The wire form."""
        return pb.Transaction(pipeline=self.pipeline, batch=self.batch)

    @classmethod
    def from_proto(cls, wire: pb.Transaction) -> "Transaction":
        """The transaction of a wire message.

        Raises:
            MalformedMessage: it names no pipeline, or the batch number is too large.
        """
        if wire.batch > MAX_SEQUENCE:
            raise MalformedMessage(f"transaction of batch {wire.batch}: the largest is 2^63 - 1")
        return cls(check_pipeline(wire.pipeline), wire.batch)

    @property
    def for_logs(self) -> dict[str, str | int]:
        """The keys of every log line about it."""
        return {"pipeline": self.pipeline, "batch": self.batch}

    def __str__(self) -> str:
        return f"batch {self.batch} of pipeline {self.pipeline}"


@dataclass(frozen=True, order=True, slots=True)
class Part:
    """The rows of one Spark task, as one attempt delivers them."""

    transaction: Transaction
    partition: int
    attempt: str

    @property
    def run_id(self) -> str:
        """The id of the pipeline's run that delivered it: an attempt is named `RUN/TRY`."""
        return self.attempt.partition("/")[0]

    @property
    def for_logs(self) -> dict[str, str | int]:
        """The keys of every log line about it."""
        return {**self.transaction.for_logs, "partition": self.partition, "attempt": self.attempt}

    def to_proto(self) -> pb.Part:
        """The wire form."""
        return pb.Part(transaction=self.transaction.to_proto(), partition=self.partition, attempt=self.attempt)

    @classmethod
    def from_proto(cls, wire: pb.Part) -> "Part":
        """The part of a wire message.

        Raises:
            MalformedMessage: its transaction is invalid, or it names no attempt.
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
        MalformedMessage: it is not a valid name.
    """
    if not is_name(name):
        raise MalformedMessage(f"sink {name[:80]!r}: want 1 to {MAX_NAME_BYTES} letters, digits and ._-")
    return name


def check_pipeline(name: str) -> str:
    """Checks and returns the name of a pipeline.

    Raises:
        MalformedMessage: it is empty or too long.
    """
    if not name:
        raise MalformedMessage(f"a pipeline without a name: want one of 1 to {MAX_NAME_BYTES} bytes")
    return check_length("pipeline", name)
