"""The types of the sink API besides rows: transactions, parts and outcomes."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Transaction:
    """What one micro-batch of one pipeline writes to one sink.

    Attributes:
        pipeline: The id of the pipeline's query, which its checkpoint keeps.
        batch: The micro-batch, counted from 0.
    """

    pipeline: str
    batch: int


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """The rows that one Spark task writes.

    Attributes:
        transaction: The transaction that it belongs to.
        partition: The task's partition, counted from 0.
        attempt: Which try to deliver the partition this is; only one will count.
    """

    transaction: Transaction
    partition: int
    attempt: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a two-phase sink has stored.

    Attributes:
        staged: Every staged part, including those of prepared transactions.
        prepared: Every transaction that is prepared and neither committed nor aborted.
        committed: The last committed transaction of each pipeline. A pipeline that is missing counts as lost.
    """

    staged: Sequence[Part] = ()
    prepared: Sequence[Transaction] = ()
    committed: Sequence[Transaction] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a message that is written, or staged."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The outcome of a message that the sink will never accept. It becomes a dead letter; nothing of it may be written.

    Attributes:
        reason: The reason, in plain text.
    """

    reason: str


WRITTEN = Written()
"""The outcome of a message that is written, or staged."""

Outcome = Written | Refused
Outcomes = Sequence[Outcome] | None
"""One outcome for each message, in order; None if all of them are written."""
