"""The parts of transactions: parts in transit to a sink, and parts that its instance holds."""

import asyncio
from dataclasses import dataclass, field

from headrace.gateway.core.base.errors import MalformedMessage, ProtocolError
from headrace.gateway.core.sinks.transaction import Part, Transaction
from headrace.protocol.v1 import sink_pb2 as pb

Refused = list[pb.Staged.Refused]


@dataclass(slots=True, eq=False)
class OpenPart:
    """A part that is being delivered."""

    id: int
    part: Part
    staged: "asyncio.Future[Refused | ProtocolError]"
    at_once: bool = False
    """Whether the sink writes it without a vote, and so holds nothing of it once it has answered."""
    messages: int = 0
    complete: bool = False
    """Whether all of it has been sent."""
    completed_at: float = 0.0
    """When, on the monotonic clock."""
    trace_id: str | None = None
    """The trace of its first sampled message; None if there is none, or no spans are exported."""

    @property
    def for_logs(self) -> dict[str, str | int]:
        """The keys and values that every log line about it contains."""
        return {**self.part.for_logs, **({} if self.trace_id is None else {"trace_id": self.trace_id})}


@dataclass(slots=True)
class Holdings:
    """The undecided transactions that an instance holds, and their parts."""

    staged: set[Part] = field(default_factory=set)
    prepared: set[Transaction] = field(default_factory=set)

    def transactions(self) -> set[Transaction]:
        """Returns all transactions that are prepared or have staged parts."""
        return self.prepared | {part.transaction for part in self.staged}

    def run_ids(self, transaction: Transaction) -> set[str]:
        """Returns the ids of the runs that delivered parts of a transaction."""
        if transaction.run:
            return {transaction.run}
        return {part.run_id for part in self.staged if part.transaction == transaction}

    def prepared_by(self, transaction: Transaction) -> set[str]:
        """Returns the runs that have prepared a micro-batch, as their transactions name them."""
        wanted = transaction.of_run("")
        return {held.run for held in self.prepared if held.of_run("") == wanted}

    def keep_only(self, transaction: Transaction, parts: list[Part]) -> None:
        """Replaces the parts of a transaction with the chosen parts."""
        self.drop(transaction)
        self.staged.update(parts)

    def drop(self, transaction: Transaction) -> None:
        """Forgets a transaction."""
        self.prepared.discard(transaction)
        self.staged = {part for part in self.staged if part.transaction != transaction}


def check_refused(refused: Refused, messages: int) -> None:
    """Checks that refusals name messages of the part, in ascending order.

    Raises:
        MalformedMessage: a refusal is out of range or out of order.
    """
    last = -1
    for refusal in refused:
        if refusal.sequence >= messages:
            raise MalformedMessage(f"Staged refuses message {refusal.sequence}, but the part has only {messages}")
        if refusal.sequence <= last:
            raise MalformedMessage(f"Staged refuses message {refusal.sequence} after {last}; want each once, ascending")
        last = refusal.sequence
