"""The gateway: its streams, sessions and pipelines.

Everything runs on one event loop and nothing here waits but the drain, so that each call sees and leaves a consistent
state. Nothing is durable: what is forgotten is told again, by the pipelines from their checkpoints and by the connectors
from their sources.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence

from headrace.gateway._config import Limits, StreamRule
from headrace.gateway._identity import Identity, TokenRegistry
from headrace.gateway.core._bounds import MAX_POSITIONS, MAX_SINKS, check_room
from headrace.gateway.core._credit import CreditPool
from headrace.gateway.core._errors import AtCapacity, Draining, ProtocolError, TokenRevoked
from headrace.gateway.core._ledger import Ledger, Voted
from headrace.gateway.core._owners import QueryOwners
from headrace.gateway.core._pipeline import Pipeline
from headrace.gateway.core._position import BEGINNING
from headrace.gateway.core._session import Session
from headrace.gateway.core._signal import Signal
from headrace.gateway.core._sink import Sink
from headrace.gateway.core._sink_session import SinkSession
from headrace.gateway.core._stream import Stream
from headrace.gateway.core._votes import Votes
from headrace.protocol.v1 import sink_pb2, source_pb2

STOPPING = "the gateway is stopping"
SINKS_SHARE = 0.2
"""Of the time for a drain: what sinks have at least, where sources take as long as they may."""


class Gateway:
    """All that one gateway knows."""

    def __init__(self, limits: Limits, rules: Sequence[StreamRule] = ()) -> None:
        self.limits = limits
        self.started_at = time.monotonic()
        self.streams: dict[str, Stream] = {}
        self.gone: dict[str, None] = {}
        """The streams that their sources will never offer again, until they are forgotten."""
        self.sessions: dict[str, Session] = {}
        self.pipelines: dict[str, Pipeline] = {}
        self.sinks: dict[str, Sink] = {}
        self.sink_sessions: dict[str, SinkSession] = {}
        self.ledgers: dict[str, Ledger] = {}
        """What is known of the commit log of each pipeline that writes to sinks."""
        self.settled_at: dict[str, float] = {}
        """When each of them was last told."""
        self.settled = Signal()
        """A run has told of its commit log."""
        self.voted: dict[str, Voted] = {}
        """The last vote of each such pipeline, until its commit is known."""
        self.owners = QueryOwners()
        self.sinks_changed = Signal()
        """A sink's instance has come, or a pipeline has told of its commit log."""
        self.votes = Votes()
        """What instances of sinks must have when they come back."""
        self.credit = CreditPool(limits.buffer_bytes, limits.session_messages, limits.max_sessions)
        self.rejected_sessions: dict[str, int] = {}
        self.frames_received = 0
        self.draining = False
        self._sessions_changed = Signal()
        for rule in rules:
            for name in rule.pipelines:
                pipeline = self.pipelines.setdefault(name, Pipeline(name))
                pipeline.declared += (rule.pattern,)

    def open_session(self, hello: source_pb2.Hello, peer: str, identity: Identity) -> Session:
        """Takes a session in.

        Raises:
            Draining: the gateway is stopping.
            AtCapacity: it has as many as it may.
        """
        self._check_room()
        session = Session(hello, peer, identity, self.credit)
        self.sessions[session.id] = session
        self._sessions_changed.notify()
        return session

    def open_sink_session(self, hello: sink_pb2.SinkHello, peer: str, identity: Identity) -> SinkSession:
        """Takes a sink's session in.

        Raises:
            Draining: the gateway is stopping.
            AtCapacity: it has as many as it may.
        """
        self._check_room()
        session = SinkSession(hello, peer, identity)
        self.sink_sessions[session.id] = session
        return session

    def _check_room(self) -> None:
        if self.draining:
            raise Draining(f"{STOPPING}; reconnect in a moment")
        if len(self.sessions) + len(self.sink_sessions) >= self.limits.max_sessions:
            raise AtCapacity(f"max_sessions is {self.limits.max_sessions} and all are taken; raise it, or close sessions")

    def close_session(self, session: Session) -> None:
        """Lets a session go, with its streams and its credit. What a redelivering source sent in it is void."""
        del self.sessions[session.id]
        for attachment in session.attachments.values():
            stream = attachment.stream
            if attachment in stream.former:
                stream.former.remove(attachment)
            if stream.attachment is attachment:
                self.detach(stream)
        self.credit.close(session.account)
        self.credit.settle()
        self._sessions_changed.notify()

    def close_sink_session(self, session: SinkSession) -> None:
        """Lets a sink's session go. Whoever waits for an answer of it learns that none will come."""
        del self.sink_sessions[session.id]
        session.close()
        self.sinks[session.hello.sink].detach(session)
        self._sessions_changed.notify()

    def end_revoked(self, registry: TokenRegistry) -> int:
        """Ends the sessions whose tokens are in force no longer, or with other rights; returns how many."""
        sessions: list[Session | SinkSession] = [*self.sessions.values(), *self.sink_sessions.values()]
        revoked = [session for session in sessions if not registry.holds(session.identity)]
        for session in revoked:
            text = f"the token of {session.identity.name!r} was replaced or has other rights now; connect with the new one"
            session.end(TokenRevoked(text))
        return len(revoked)

    def sink(self, name: str) -> Sink:
        """The sink of a name, known or new.

        Raises:
            LimitExceeded: it is new, and there are as many as may be.
        """
        sink = self.sinks.get(name)
        if sink is None:
            check_room("sinks", self.sinks, MAX_SINKS)
            sink = self.sinks[name] = Sink(name)
        sink.used_at = time.monotonic()
        return sink

    def detach(self, stream: Stream) -> None:
        """Takes a stream from its session. Nothing is kept of one that never carried anything and that no batch waits for."""
        stream.attachment = None
        if not stream.replayable:
            stream.void()
        stream.news.notify()
        kept = any(stream.name in positions for p in stream.readers for positions in (p.committed, p.begins, p.planned))
        if stream.received == BEGINNING and not stream.frames and not kept:
            for pipeline in stream.readers:
                pipeline.fresh.pop(stream.name, None)
                pipeline.undecided.discard(stream.name)
            self.gone.pop(stream.name, None)
            del self.streams[stream.name]

    def stream(self, name: str) -> Stream:
        """The stream of a name, known or new.

        Raises:
            LimitExceeded: it is new, and there are as many as may be.
        """
        stream = self.streams.get(name)
        if stream is None:
            check_room("streams", self.streams, MAX_POSITIONS)
            stream = self.streams[name] = Stream(name)
            self.index(stream)
        return stream

    def index(self, stream: Stream) -> None:
        """Finds the pipelines that read a stream."""
        stream.readers = [p for p in self.pipelines.values() if p.reads(stream.name)]

    def count_rejected(self, error: ProtocolError) -> None:
        """Counts a session that broke a rule."""
        self.rejected_sessions[error.status.name] = self.rejected_sessions.get(error.status.name, 0) + 1

    async def drain(self) -> None:
        """Asks every session to end, and waits for that, for at most `drain_timeout_ms`.

        Sources first: what they wait to have acknowledged may have to be written, so that sinks stay until the sources have left.
        """
        self.draining = True
        loop, timeout_ms = asyncio.get_running_loop(), self.limits.drain_timeout_ms
        deadline = loop.time() + timeout_ms / 1000
        sources_ms = round(timeout_ms * (1 - SINKS_SHARE)) if self.sink_sessions else timeout_ms
        drain = source_pb2.Drain(deadline_ms=sources_ms, reason=STOPPING)
        for session in self.sessions.values():
            session.draining = True
            session.send(source_pb2.IngestResponse(drain=drain))
        await self._until_left(self.sessions, deadline - (timeout_ms - sources_ms) / 1000)
        sink_drain = sink_pb2.SinkDrain(deadline_ms=max(0, round((deadline - loop.time()) * 1000)), reason=STOPPING)
        for sink_session in self.sink_sessions.values():
            sink_session.send(sink_pb2.SinkServiceAttachResponse(drain=sink_drain))
        await self._until_left(self.sessions, deadline)
        await self._until_left(self.sink_sessions, deadline)

    async def _until_left(self, sessions: Mapping[str, object], deadline: float) -> None:
        """Waits until sessions have ended, or until a time of the event loop's clock."""
        while sessions and (left := deadline - asyncio.get_running_loop().time()) > 0:
            await self._sessions_changed.wait(left)

    def close(self) -> None:
        """Ends every session that is left."""
        stopping = Draining(f"{STOPPING}; reconnect in a moment")
        for session in self.sessions.values():
            session.end(stopping)
        for sink_session in self.sink_sessions.values():
            sink_session.end(stopping)
