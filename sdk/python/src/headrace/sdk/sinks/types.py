"""The types of the sink API besides rows: transactions, parts and outcomes, which are validated here."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.protocol.v1 import sink_pb2 as pb
from headrace.sdk._errors import InvalidOutcomes


@dataclass(frozen=True, slots=True, order=True)
class Transaction:
    """Everything that one micro-batch of one pipeline writes to one sink.

    Attributes:
        pipeline: The id of the pipeline's query, stored in its checkpoint.
        batch: The micro-batch, counted from 0.
        run: The run of the query that writes it, for a sink that `keeps_runs`; otherwise empty.
    """

    pipeline: str
    batch: int
    run: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """The rows that one Spark task writes.

    Attributes:
        transaction: The transaction that it belongs to.
        partition: The task's partition, counted from 0.
        attempt: The name of this attempt to deliver the partition; only one attempt will count.
    """

    transaction: Transaction
    partition: int
    attempt: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """The stored transactions of a two-phase sink.

    Attributes:
        staged: Every staged part, including parts of prepared transactions.
        prepared: Every transaction that is prepared and neither committed nor aborted.
        committed: The last committed transaction of each pipeline; its run does not matter. Transactions of a pipeline that is
            missing here count as lost.
    """

    staged: Sequence[Part] = ()
    prepared: Sequence[Transaction] = ()
    committed: Sequence[Transaction] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a message that is written, or staged."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The outcome of a message that the sink will never accept. It becomes a dead letter, and must not be written.

    Attributes:
        reason: The reason, in plain text.
    """

    reason: str


WRITTEN = Written()
"""The outcome of a message that is written, or staged."""

Outcome = Written | Refused
Outcomes = Sequence[Outcome] | None
"""One outcome for each message, in order; None if all of them are written."""


def refusals(outcomes: Outcomes, first: int, count: int) -> list[pb.Staged.Refused]:
    """Returns the refused messages, by their places in the part.

    Args:
        outcomes: The outcomes that the sink returned.
        first: The place of the first message in the part.
        count: The number of messages that the sink received.

    Raises:
        InvalidOutcomes: Not every message has exactly one outcome.
    """
    if outcomes is None:
        return []
    if not isinstance(outcomes, Sequence) or isinstance(outcomes, str | bytes):
        raise InvalidOutcomes(f"outcomes must be a sequence or None, not {type(outcomes).__name__}")
    if len(outcomes) != count:
        raise InvalidOutcomes(
            f"return one outcome for each message, or None if all are written: {count} expected, {len(outcomes)} returned"
        )
    if outcomes.count(WRITTEN) == count:
        return []
    refused = []
    for place, outcome in enumerate(outcomes, first):
        if isinstance(outcome, Refused):
            refused.append(pb.Staged.Refused(sequence=place, reason=outcome.reason))
        elif outcome != WRITTEN:
            raise InvalidOutcomes(f"message {place}: {outcome!r} is neither WRITTEN nor Refused(reason)")
    return refused
