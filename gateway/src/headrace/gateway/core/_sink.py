"""A sink as the gateway knows it: its instances, and what they hold."""

import time
import zlib
from dataclasses import dataclass, field

from headrace.gateway.core._bounds import MAX_AWAY, MAX_LISTED
from headrace.gateway.core._signal import Signal
from headrace.gateway.core._sink_session import Holdings, SinkSession
from headrace.gateway.core._transaction import Part, Transaction
from headrace.protocol.v1 import sink_pb2 as pb


@dataclass(slots=True, eq=False)
class Sink:
    """One sink, attached or not."""

    name: str
    mode: pb.SinkMode.ValueType = pb.SINK_MODE_UNSPECIFIED
    sessions: dict[str, SinkSession] = field(default_factory=dict)
    """The live session of each instance."""
    away: dict[str, Holdings] = field(default_factory=dict)
    """What instances held that were lost and will list it when they come back; two-phase only."""
    committed: dict[str, int] = field(default_factory=dict)
    """The last batch of each pipeline that is visible."""
    staged_messages: int = 0
    refused_messages: int = 0
    losses: int = 0
    """How often an instance has come back without what it voted for."""
    voting: dict[Transaction, str] = field(default_factory=dict)
    """The transactions whose vote somebody waits for, each with why an instance is against it; empty where none is."""
    news: Signal = field(default_factory=Signal)
    """An instance has come or gone, or is against a transaction."""
    used_at: float = field(default_factory=time.monotonic)
    """When somebody last named it."""

    @property
    def durable(self) -> bool:
        """Whether what its instances have staged outlives them."""
        return self.mode == pb.SINK_MODE_TWO_PHASE

    @property
    def writes_at_once(self) -> bool:
        """Whether what its instances have staged is written already, so that nothing of it can be lost."""
        return self.mode == pb.SINK_MODE_AT_LEAST_ONCE

    def instance_for(self, part: Part) -> SinkSession | None:
        """The instance that takes a part; None where there is none.

        Transactions are spread by partition. One of a batch-idempotent sink has a single instance, since its id is written once:
        the one that has parts of it already, else one that is the same for all batches of its pipeline.
        """
        if not self.sessions:
            return None
        if self.mode == pb.SINK_MODE_BATCH_IDEMPOTENT:
            has_some = (session for session in self.sessions.values() if session.has_parts_of(part.transaction))
            return next(has_some, None) or self.sessions[max(self.sessions, key=lambda name: _weight(name, part))]
        names = sorted(self.sessions)
        return self.sessions[names[part.partition % len(names)]]

    def attach(self, session: SinkSession) -> None:
        """Takes an instance in, with what it says that it holds."""
        hello = session.hello
        self.mode = hello.mode
        self.sessions[session.instance] = session
        self.away.pop(session.instance, None)
        session.holdings.staged = {Part.from_proto(part) for part in hello.staged}
        session.holdings.prepared = {Transaction.from_proto(transaction) for transaction in hello.prepared}
        for last in map(Transaction.from_proto, hello.committed):
            session.note_visible(last)
            self.note_committed(last)
        # The holdings have them, and a session lasts.
        for listed in ("staged", "prepared", "committed"):
            hello.ClearField(listed)
        self.news.notify()

    def detach(self, session: SinkSession) -> None:
        """Lets an instance go, unless a newer session of it has taken over."""
        if self.sessions.get(session.instance) is session:
            del self.sessions[session.instance]
            if self.durable and session.holdings.transactions():
                self.away[session.instance] = session.holdings
                if len(self.away) > MAX_AWAY:
                    del self.away[next(iter(self.away))]
            self.news.notify()

    def note_failed(self, transaction: Transaction, reason: str) -> None:
        """Notes that an instance is against a transaction whose vote it has not been asked for yet."""
        if transaction in self.voting:
            self.voting[transaction] = reason
            self.news.notify()

    def note_committed(self, transaction: Transaction) -> None:
        """Notes that a transaction is visible."""
        last = self.committed.pop(transaction.pipeline, -1)
        self.committed[transaction.pipeline] = max(transaction.batch, last)
        if len(self.committed) > MAX_LISTED:
            del self.committed[next(iter(self.committed))]

    def is_visible(self, transaction: Transaction) -> bool:
        """Whether a transaction cannot be delivered any more, because its batch is visible and was in the commit log."""
        last = self.committed.get(transaction.pipeline, -1)
        return transaction.batch <= last if self.durable else transaction.batch < last

    def is_unused(self, since: float) -> bool:
        """Whether nobody has named it since a moment, and nothing of it is left or waited for."""
        return self.used_at < since and not (self.sessions or self.away or self.voting or self.news.waiters)

    def holders(self) -> list[Holdings]:
        """What all instances hold, live or away."""
        return [*(session.holdings for session in self.sessions.values()), *self.away.values()]


def _weight(instance: str, part: Part) -> int:
    """How much an instance is for a part's pipeline: few pipelines move to another one when instances come and go."""
    return zlib.crc32(f"{instance}/{part.transaction.pipeline}".encode())
