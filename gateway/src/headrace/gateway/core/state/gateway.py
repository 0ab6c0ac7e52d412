"""The gateway: its streams, sessions and pipelines.

Everything runs on one event loop, and only a drain waits, so each call sees and leaves a consistent state. Nothing is durable:
after a restart, pipelines report the positions in their checkpoints again, and connectors resend from their sources.
"""

import asyncio
import itertools
from collections.abc import Callable, Sequence

from headrace.contract import clock
from headrace.contract.units import milliseconds
from headrace.gateway.config import Limits, Paused, Peek, StreamRule
from headrace.gateway.core.base.bounds import MAX_POSITIONS, MAX_SINKS, check_room
from headrace.gateway.core.base.errors import AtCapacity, ChangeRefused, Draining, ProtocolError
from headrace.gateway.core.base.position import BEGINNING
from headrace.gateway.core.base.times import ClockJumps
from headrace.gateway.core.base.turns import Signal
from headrace.gateway.core.connections import Connectors, OpenCalls, Reconnections, Refusals, Role
from headrace.gateway.core.pipelines import Drivers, Pipeline
from headrace.gateway.core.sinks import CommitLog, DeadLetters, QueryOwners, Sink, SinkSession, Votes
from headrace.gateway.core.state.deployments import Deployments
from headrace.gateway.core.state.drain import STOPPING, Drain, ReportedLogs
from headrace.gateway.core.state.event_log import EventKind, EventLog
from headrace.gateway.core.state.revocation import end_revoked
from headrace.gateway.core.state.tracing import Tracing
from headrace.gateway.core.streams import OVERHEAD_BYTES, CreditPool, Pauses, Session, Stream, Totals
from headrace.gateway.identity import Identity, TokenRegistry
from headrace.gateway.own_faults import OwnFaults
from headrace.protocol.v1 import sink_pb2, source_pb2


def _without_file() -> list[str]:
    raise ChangeRefused("the gateway was started without a configuration file (--config), so there is nothing to reload")


class Gateway:
    """The state of one gateway."""

    def __init__(
        self, limits: Limits, rules: Sequence[StreamRule] = (), paused: Paused | None = None, peek: Peek | None = None
    ) -> None:
        self.limits = limits
        self.peek = peek or Peek()
        self.listeners = 0
        """How many callers peek at streams."""
        self.started_at = clock.monotonic()
        self.pauses = Pauses(paused or Paused())
        self.streams: dict[str, Stream] = {}
        self.gone: dict[str, None] = {}
        """Streams that have ended permanently, until they are forgotten."""
        self.was_gone: dict[str, None] = {}
        """The streams that were forgotten most recently: a query that comes later may still name them."""
        self.sessions: dict[str, Session] = {}
        self.pipelines: dict[str, Pipeline] = {}
        self.sinks: dict[str, Sink] = {}
        self.sink_sessions: dict[str, SinkSession] = {}
        self.commit_logs: dict[str, CommitLog] = {}
        """The commit log of each pipeline that writes to sinks, as last reported."""
        self.commits_reported_at: dict[str, float] = {}
        """When each commit log was last reported, on the monotonic clock."""
        self.commits_reported = Signal()
        """Notified when a run has reported its commit log."""
        self.dead_letters = DeadLetters()
        self.owners = QueryOwners()
        self.sinks_changed = Signal()
        """Notified when an instance of a sink has attached, or a pipeline has reported its commit log."""
        self.votes = Votes()
        """The transactions that sink instances must have when they reconnect."""
        self.credit = CreditPool(
            limits.buffer_bytes, limits.session_messages, limits.max_sessions, limits.max_frame_bytes + OVERHEAD_BYTES
        )
        self.rejected_sessions: dict[str, int] = {}
        self.event_log = EventLog()
        self.frames_received = 0
        self.connectors = Connectors()
        self.forgotten = Totals()
        """The counts of streams that were forgotten."""
        self.acknowledgement_observers: list[Callable[[float], None]] = []
        """Called with the time from a commit to the write of its acknowledgement, in seconds."""
        self.tracing: Tracing | None = None
        """Creates spans; None if they are not exported."""
        self.clock_jumps = ClockJumps()
        self.certificates: dict[str, int] = {}
        """When the certificates in its TLS files expire, in seconds since 1970, by file."""
        self.unconnected_since: float | None = self.started_at
        """Since when nothing has been connected, on the monotonic clock; None if something is."""
        self.own_faults = OwnFaults()
        """What is wrong with its own files and its own work."""
        self.draining = False
        self.drain_begun = asyncio.Event()
        self.drain_task: asyncio.Task[None] | None = None
        """The last drain that was requested."""
        self.reload: Callable[[], list[str]] = _without_file
        """Reads the configuration file again; returns what has changed."""
        self.deployments = Deployments()
        """The deployments whose supervisors are registered."""
        self.drivers = Drivers()
        self.open_calls = OpenCalls()
        """The calls in progress, sessions among them."""
        self.refusals = Refusals()
        """Whom it has refused."""
        self.reconnections = Reconnections()
        """Which connectors have connected lately, and how often."""
        self.sessions_changed = Signal()
        """Notified when a session has opened or closed."""
        self._session_numbers = itertools.count(1)
        for rule in rules:
            for name in rule.pipelines:
                pipeline = self.pipelines.setdefault(name, Pipeline(name))
                pipeline.declared += (rule.pattern,)

    def open_session(self, hello: source_pb2.Hello, peer: str, identity: Identity) -> Session:
        """Opens the session of a source connector.

        Raises:
            Draining: the gateway is stopping.
            AtCapacity: the limit of sessions is reached.
        """
        self._check_room()
        session = Session(
            f"s{next(self._session_numbers)}",
            hello,
            peer,
            identity,
            self.credit,
            self.connectors.opened("source", hello.connector),
        )
        self.sessions[session.id] = session
        self._note_begin(session, peer)
        return session

    def open_sink_session(self, hello: sink_pb2.SinkHello, peer: str, identity: Identity) -> SinkSession:
        """Opens the session of a sink connector.

        Raises:
            Draining: the gateway is stopping.
            AtCapacity: the limit of sessions is reached.
        """
        self._check_room()
        session = SinkSession(
            f"k{next(self._session_numbers)}",
            hello,
            peer,
            identity,
            self.connectors.opened("sink", hello.connector),
            lambda query: self.commit_logs[query].readers if query in self.commit_logs else (),
        )
        self.sink_sessions[session.id] = session
        self._note_begin(session, peer)
        return session

    def _check_room(self) -> None:
        if self.draining:
            raise Draining(f"{STOPPING}; reconnect in a moment")
        if len(self.sessions) + len(self.sink_sessions) >= self.limits.max_sessions:
            most = self.limits.max_sessions
            text = f"max_sessions is {most} and all are taken; raise it, or close sessions"
            raise AtCapacity(text, limit="max_sessions", maximum=most)

    def close_session(self, session: Session) -> None:
        """Closes a session, its streams and its credit account. Unacknowledged messages of a redelivering source become void."""
        del self.sessions[session.id]
        self._note_end(session)
        if self.tracing is not None:
            self.tracing.closed(session)
        for attachment in session.attachments.values():
            stream = attachment.stream
            if attachment in stream.former:
                stream.former.remove(attachment)
            if stream.attachment is attachment:
                stream.note_end(session.reported.last_error)
                self.detach(stream)
        if not session.attachments and session.reported.last_error:
            # It has given up before it opened what it sent in earlier sessions.
            for stream in self.streams.values():
                own = stream.last_instance == session.instance and session.identity.may_open(stream.name)
                if stream.attachment is None and own:
                    stream.note_end(session.reported.last_error)
        self.credit.close(session.account)
        self.credit.rebalance()
        self.sessions_changed.notify()

    def close_sink_session(self, session: SinkSession) -> None:
        """Closes a sink's session, and fails the calls that wait for its answers."""
        del self.sink_sessions[session.id]
        self._note_end(session)
        session.close()
        sink = self.sinks.get(session.hello.sink)
        if sink is not None:  # The gateway may have had no room for it.
            sink.detach(session)
        self.sessions_changed.notify()

    def end_revoked(self, registry: TokenRegistry) -> int:
        """Ends the calls whose tokens are no longer valid or whose rights have changed; returns how many."""
        return end_revoked(registry, self.open_calls, self.pipelines.values(), self.refusals)

    def sink(self, name: str) -> Sink:
        """Returns the sink of a name, known or new.

        Raises:
            LimitExceeded: the sink is new, and the limit of sinks is reached.
        """
        sink = self.sinks.get(name)
        if sink is None:
            check_room("sinks", self.sinks, MAX_SINKS)
            sink = self.sinks[name] = Sink(name)
        sink.used_at = clock.monotonic()
        return sink

    def detach(self, stream: Stream) -> None:
        """Detaches a stream from its session. Forgets a stream that carried no messages and that no batch needs."""
        stream.leave()
        if stream.redelivering:
            stream.void()
        stream.news.notify()
        kept = any(stream.name in positions for p in stream.readers for positions in (p.committed, p.begins, p.planned))
        if stream.received == BEGINNING and not stream.frames and not kept:
            for pipeline in stream.readers:
                pipeline.fresh.pop(stream.name, None)
                pipeline.undecided.discard(stream.name)
            self.gone.pop(stream.name, None)
            self.forget_stream(stream)

    def forget_stream(self, stream: Stream) -> None:
        """Forgets a stream, except for what it counted."""
        del self.streams[stream.name]
        self.forgotten.add(stream)

    def stream(self, name: str) -> Stream:
        """Returns the stream of a name, known or new.

        Raises:
            LimitExceeded: the stream is new, and the limit of streams is reached.
        """
        stream = self.streams.get(name)
        if stream is None:
            check_room("streams", self.streams, MAX_POSITIONS)
            stream = self.streams[name] = Stream(name, pause=self.pauses.of_stream(name, ""))
            self.index(stream)
        return stream

    def index(self, stream: Stream) -> None:
        """Sets the readers of a stream: the pipelines whose patterns cover it."""
        stream.readers = [p for p in self.pipelines.values() if p.reads(stream.name)]

    def _note_begin(self, session: Session | SinkSession, peer: str) -> None:
        self.reconnections.opened(session.part)
        self.event_log.add(EventKind.ATTACHED, session.part, f"session {session.id} from {peer}")
        self.sessions_changed.notify()

    def _note_end(self, session: Session | SinkSession) -> None:
        said = session.reported.last_error
        self.reconnections.ended(session.part, said or (str(session.failure) if session.failure is not None else ""))
        self.event_log.add(EventKind.DETACHED, session.part, f"session {session.id} has ended" + (f": {said}" if said else ""))

    def note_rejected(self, error: ProtocolError, role: Role, part: str, peer: str, *, was_admitted: bool) -> None:
        """Notes that a part was refused, or that its session was ended with an error.

        Args:
            error: The error.
            role: The role that the caller asks for.
            part: The part; empty if the caller has not shown which one it is.
            peer: The address of the caller.
            was_admitted: Whether it had a session that worked.
        """
        self.refusals.note(role, part, peer, error, was_admitted=was_admitted)
        self.event_log.add(EventKind.REJECTED, part or f"caller {peer}", f"{error.status.name}: {error}")
        self.rejected_sessions[error.status.name] = self.rejected_sessions.get(error.status.name, 0) + 1

    def begin_to_drain(self, timeout_ms: int | None = None) -> "asyncio.Task[None]":
        """Drains in a task of its own, which outlives whoever requested it; returns the task of a drain in progress."""
        if self.drain_task is None or self.drain_task.done():
            self.drain_task = asyncio.create_task(self.drain(timeout_ms), name="drain")
        return self.drain_task

    async def drain(self, timeout_ms: int | None = None) -> None:
        """Asks every session to end, and waits until all have, for at most `timeout_ms` or else `drain_timeout_seconds`."""
        self.draining = True
        self.drain_begun.set()
        logs = ReportedLogs(self.commit_logs, self.commits_reported_at, self.sinks_changed)
        drain = Drain(self.sessions, self.sink_sessions, self.sessions_changed, logs)
        await drain.run(milliseconds(self.limits.drain_timeout_seconds) if timeout_ms is None else timeout_ms)

    def close(self) -> None:
        """Ends all remaining sessions."""
        if self.drain_task is not None:
            self.drain_task.cancel()
        stopping = Draining(f"{STOPPING}; reconnect in a moment")
        for session in self.sessions.values():
            session.end(stopping)
        for sink_session in self.sink_sessions.values():
            sink_session.end(stopping)
        for call in self.open_calls:
            # A call that has only begun has until the server stops to answer.
            if call.is_served:
                call.end(stopping)
