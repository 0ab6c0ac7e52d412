"""The run of one check of a source."""

from collections.abc import Sequence
from pathlib import Path

from headrace.conformance.core.changes import Changes
from headrace.conformance.core.errors import NotJudged
from headrace.conformance.core.frames import Message
from headrace.conformance.core.spec import SourceSpec
from headrace.conformance.core.trace import Trace
from headrace.conformance.core.trial import Trial
from headrace.conformance.sources.gateway import SourceGateway
from headrace.conformance.sources.session import SourceSession
from headrace.conformance.sources.stream import Stream
from headrace.contract.counts import counted

FEW = 3
"""How many messages a stream has at least that is interrupted in the middle."""


class SourceTrial(Trial[SourceSpec, SourceGateway]):
    """The source that a check acts on."""

    async def session(self) -> SourceSession:
        """As `Trial.session`."""
        session = await super().session()
        assert isinstance(session, SourceSession)
        return session

    async def session_with_spent_credit(self, messages: int = 1) -> SourceSession:
        """Starts the connector, and returns its session once it has used credit for `messages` messages; more must be granted."""
        self.gateway.terms.credit_messages = messages
        self.gateway.acks = self.gateway.grants = False
        await self.start()
        session = await self.session()
        await self.until(lambda: session.messages >= 1, "a frame within the first credit")
        return session

    async def stream_asked(self, session: SourceSession) -> Stream:
        """The first stream that the connector asks for in a session."""
        await self.until(lambda: bool(session.streams), "OpenStream")
        return next(iter(session.streams.values()))

    async def arrived(self, session: SourceSession, count: int | None = None, seconds: float | None = None) -> None:
        """Waits until a session has brought all messages, or `count` of them."""
        count = self.spec.messages if count is None else count
        await self.until(lambda: session.messages >= count, counted(count, "message"), seconds)

    def hold(self) -> None:
        """As `Trial.hold`."""
        self.gateway.opens = False

    async def at_work(self, session: SourceSession) -> None:
        """As `Trial.at_work`."""
        await self.stream_asked(session)
        await self.until_quiet()

    async def has_work(self, session: SourceSession) -> None:
        """As `Trial.has_work`."""
        await self.at_work(session)
        if self.spec.messages > 0:
            await self.arrived(session, 1)

    def leave_unsettled(self) -> None:
        """As `Trial.leave_unsettled`."""
        self.gateway.acks = False

    def settle(self, session: SourceSession) -> None:
        """As `Trial.settle`."""
        self.gateway.acks = True
        session.acknowledge_all()

    async def baseline(self) -> dict[str, list[Message]]:
        """All messages that the source has, by stream, as a session of its own brings them; then that session is cut.

        Nothing of it is acknowledged.
        """
        self.gateway.acks = False
        await self.start()
        session = await self.session()
        await self.arrived(session)
        found = {stream.name: list(stream.messages) for stream in session.streams.values()}
        await self.kill()
        await self.until(lambda: session.ended, "the end of the call", must_run=False)
        self.gateway.acks = True
        return found

    async def ends(self, session: SourceSession) -> None:
        """Sees that the source says Goodbye and exits with 0."""
        code = await self.exits("the end of the process, once everything is acknowledged")
        self.require(code == 0, f"it exits with {code} once everything is acknowledged, and not with 0")
        self.require(session.goodbye is not None, "it ended the call without Goodbye")

    async def produce(self, count: int = 1, bytes_: int = 10) -> None:
        """Has the source get more messages."""
        assert self.spec.produce is not None
        await self.run("produce", self.spec.produce, count=count, bytes=bytes_)


def fullest(streams: dict[str, list[Message]]) -> str:
    """The stream with the most messages.

    Raises:
        NotJudged: Even that one has too few.
    """
    name = max(streams, key=lambda name: len(streams[name]), default=None)
    if name is None or len(streams[name]) < FEW:
        raise NotJudged(f"needs a stream with at least {FEW} messages")
    return name


def new_source_trial(
    check: str, command: Sequence[str], spec: SourceSpec, work: Path, trace: Trace, changes: Changes, token: str
) -> SourceTrial:
    """The trial of a check, with a gateway of its own."""
    return SourceTrial(check, command, spec, SourceGateway(trace, changes), work, trace, changes, token)
