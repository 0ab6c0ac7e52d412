"""The gateway's state of a sink: its instances, and the transactions that they hold."""

import zlib
from collections import Counter
from dataclasses import dataclass, field

from headrace.contract import clock
from headrace.gateway.core.base.bounds import MAX_AWAY, MAX_LISTED
from headrace.gateway.core.base.last_error import LastError, later
from headrace.gateway.core.base.turns import Signal
from headrace.gateway.core.sinks.parts import Holdings
from headrace.gateway.core.sinks.session import SinkSession
from headrace.gateway.core.sinks.transaction import Part, Transaction
from headrace.protocol.v1 import connector_pb2
from headrace.protocol.v1 import sink_pb2 as pb


@dataclass(frozen=True, slots=True)
class Failure:
    """The error with which an instance failed a part or a transaction."""

    reason: str
    occurred_at: float
    """On the monotonic clock."""


@dataclass(slots=True, eq=False)
class Sink:
    """One sink, attached or not."""

    name: str
    mode: pb.SinkMode.ValueType = pb.SINK_MODE_UNSPECIFIED
    sessions: dict[str, SinkSession] = field(default_factory=dict)
    """The live session of each instance."""
    away: dict[str, Holdings] = field(default_factory=dict)
    """The holdings of disconnected instances, which these will list when they reconnect; two-phase sinks only."""
    committed: dict[str, int] = field(default_factory=dict)
    """The last visible batch of each pipeline."""
    staged_messages: int = 0
    refused_messages: int = 0
    losses: int = 0
    """The number of times an instance has reconnected without a transaction that it voted for."""
    voting: dict[Transaction, str] = field(default_factory=dict)
    """The transactions that wait for votes, each with the reason of an instance that has failed it; empty if none has."""
    news: Signal = field(default_factory=Signal)
    """Notified when an instance has attached or detached, or has failed a transaction."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """How many transactions its instances committed and aborted, and how many parts and transactions they failed."""
    failure: Failure | None = None
    """The first failure since it last staged, voted or committed successfully."""
    last_error: str = ""
    error: LastError | None = None
    """The last error of it, also one that is over."""
    """The last error that its last instance reported before its session ended."""
    left_at: float = field(default_factory=clock.monotonic)
    """When its last instance left, or when it became known, on the monotonic clock."""
    used_at: float = field(default_factory=clock.monotonic)
    """When a request last named it, on the monotonic clock."""

    @property
    def durable(self) -> bool:
        """Whether staged parts survive the sessions of its instances."""
        return self.mode == pb.SINK_MODE_TWO_PHASE

    @property
    def writes_at_once(self) -> bool:
        """Whether staged parts are already written, and so cannot be lost."""
        return self.mode == pb.SINK_MODE_AT_LEAST_ONCE

    def instance_for(self, part: Part) -> SinkSession | None:
        """Returns the instance for a part; None if no instance is attached.

        The parts of a transaction are distributed over the instances by partition. Those of a batch-idempotent sink go to a
        single instance, since the transaction's id is written once: the one that already has parts of it, or else the same one
        for all batches of the pipeline.
        """
        if not self.sessions:
            return None
        if self.mode == pb.SINK_MODE_BATCH_IDEMPOTENT:
            has_some = (session for session in self.sessions.values() if session.has_parts_of(part.transaction))
            return next(has_some, None) or self.sessions[max(self.sessions, key=lambda name: _weight(name, part))]
        names = sorted(self.sessions)
        return self.sessions[names[part.partition % len(names)]]

    def attach(self, session: SinkSession) -> None:
        """Attaches an instance with the transactions that its Hello lists.

        Raises:
            MalformedMessage: a transaction or part in its Hello is invalid.
        """
        hello = session.hello
        self.mode, self.failure = hello.mode, None
        self.sessions[session.instance] = session
        session.outcomes = self.outcomes
        self.away.pop(session.instance, None)
        parts = map(Part.from_proto, hello.staged)
        session.holdings.staged = set(parts) if session.keeps_runs else {part.of_run("") for part in parts}
        session.holdings.prepared = set(map(session.named, hello.prepared))
        for last in map(session.named, hello.committed):
            session.note_visible(last)
            self.note_committed(last)
        # The holdings contain them, and the Hello is kept for the duration of the session.
        for listed in ("staged", "prepared", "committed"):
            hello.ClearField(listed)
        self.news.notify()

    def detach(self, session: SinkSession) -> None:
        """Removes the session of an instance, unless a newer session of it has taken over."""
        if self.sessions.get(session.instance) is session:
            del self.sessions[session.instance]
            self.left_at = clock.monotonic()
            self.last_error = session.reported.last_error
            self.error = later(self.error, self.last_error)
            if self.durable and session.holdings.transactions():
                self.away[session.instance] = session.holdings
                if len(self.away) > MAX_AWAY:
                    del self.away[next(iter(self.away))]
            self.news.notify()

    def note_failure(self, instance: str, reason: str) -> None:
        """Notes that an instance has failed something; what comes after it may be a consequence, so the first one counts."""
        self.outcomes["failed"] += 1
        said = f"instance {instance}: {reason}"
        self.failure = self.failure or Failure(said, clock.monotonic())
        self.error = later(self.error, said)

    def note_errors(self, report: connector_pb2.Report) -> None:
        """Notes the errors that an instance has reported."""
        for error in report.errors:
            self.error = later(self.error, error.message, error.age_ms)

    def note_success(self, session: SinkSession) -> None:
        """Notes that an instance has staged, voted or committed."""
        self.failure = None
        session.succeeded_at = clock.monotonic()

    def note_failed(self, transaction: Transaction, reason: str) -> None:
        """Notes that an instance has failed a transaction before its vote was requested."""
        transaction = transaction.of_run("")
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
        """Returns whether a transaction can no longer be delivered, because its batch is visible and was in the commit log."""
        last = self.committed.get(transaction.pipeline, -1)
        return transaction.batch <= last if self.durable else transaction.batch < last

    def is_unused(self, since: float) -> bool:
        """Returns whether no request has named it since `since` on the monotonic clock, and nothing of it is held or awaited."""
        return self.used_at < since and not (self.sessions or self.away or self.voting or self.news.waiters)

    def holders(self) -> list[Holdings]:
        """Returns the holdings of all instances, attached or away."""
        return [*(session.holdings for session in self.sessions.values()), *self.away.values()]


def _weight(instance: str, part: Part) -> int:
    """Returns an instance's weight for a part's pipeline. Rendezvous hashing: few pipelines move when instances change."""
    return zlib.crc32(f"{instance}/{part.transaction.pipeline}".encode())
