"""Checks of sources: how a session begins, and how streams are opened, refused and resumed."""

from collections.abc import Callable

from headrace.conformance.core.checks import Checks
from headrace.conformance.core.close_checks import declare_close_checks
from headrace.conformance.core.connection_checks import declare_connection_checks
from headrace.conformance.core.errors import NotJudged
from headrace.conformance.core.session_checks import declare_session_checks, short_names
from headrace.conformance.sources.session import SourceSession
from headrace.conformance.sources.stream import Stream
from headrace.conformance.sources.trial import SourceTrial, fullest
from headrace.contract.counts import counted
from headrace.contract.limits import PROTOCOL_VERSION
from headrace.protocol.v1 import source_pb2 as pb

_KINDS = {
    "replayable": pb.SOURCE_KIND_REPLAYABLE,
    "redelivering": pb.SOURCE_KIND_REDELIVERING,
    "resumable": pb.SOURCE_KIND_RESUMABLE,
}
_RETRY_MS = 400
_MAX_HELLO_BYTES = 4096

Answer = Callable[[SourceSession, Stream], None]

checks: Checks[SourceTrial] = Checks()


@checks.check("hello", "SES-1", "SES-3", "SES-4", "SES-6", standing=True)
async def hello(trial: SourceTrial) -> None:
    """It does not begin with one Hello of protocol version 1 that names it and its instance, and wait for Welcome."""
    trial.gateway.welcomes = False
    await trial.start()
    session = await trial.session()
    said = session.hello
    assert said is not None
    trial.require(
        said.protocol_version == PROTOCOL_VERSION, f"protocol_version is {said.protocol_version}, not {PROTOCOL_VERSION}"
    )
    trial.require(bool(said.connector), "connector is empty")
    trial.require(bool(said.instance), "instance is empty")
    short_names(trial, said)
    trial.require(said.ByteSize() <= _MAX_HELLO_BYTES, f"Hello has {said.ByteSize()} bytes")
    # A breach is noted where it sends anything else before Welcome.
    await trial.never(lambda: bool(trial.breaches), "it sends something else before it has Welcome")
    session.welcome()
    await trial.stream_asked(session)


declare_session_checks(checks)
declare_close_checks(checks)
declare_connection_checks(checks)


@checks.check("parked", "SRC-12", "SRC-39", "SRC-10", needs=("messages",), standing=True)
async def parked(trial: SourceTrial) -> None:
    """It sends frames of a stream that the gateway has not opened, or that it has closed itself."""
    trial.gateway.opens = False
    await trial.start()
    session = await trial.session()
    await trial.stream_asked(session)
    await trial.never(lambda: bool(session.frames), "a frame before StreamOpened")
    for stream in session.streams.values():
        session.open(stream)
    trial.gateway.opens = True
    await trial.arrived(session)


@checks.check("kind", "SRC-8")
async def kind(trial: SourceTrial) -> None:
    """It opens a stream as another kind than its specification declares, or chooses starts although that is not declared."""
    await trial.start()
    stream = await trial.stream_asked(await trial.session())
    trial.require(stream.kind == _KINDS[trial.spec.kind], f"OpenStream of {stream.name} says {pb.SourceKind.Name(stream.kind)}")
    trial.require(
        stream.chooses_start == trial.spec.chooses_start, f"OpenStream of {stream.name}: chooses_start is {stream.chooses_start}"
    )


@checks.check("stream-ids", "SRC-5", "SRC-6", "SRC-11", standing=True)
async def stream_ids(trial: SourceTrial) -> None:
    """It opens a stream under an id that it has used before in the session, names an unknown id, or an invalid stream."""
    trial.gateway.on_asked = [_rejects(pb.REJECT_REASON_OWNED, 10), _rejects(pb.REJECT_REASON_REOPEN, 0)]
    await trial.start()
    session = await trial.session()
    await trial.until(lambda: len(session.streams) >= 3 or bool(trial.breaches), "the stream to be opened again after Reject")


@checks.check("resume", "SRC-13", needs=("replayable", "messages"))
async def resume(trial: SourceTrial) -> None:
    """It does not continue with the first message after the resume position."""
    before = await trial.baseline()
    name = fullest(before)
    place = len(before[name]) // 2
    trial.gateway.resume_at(name, before[name][place].sequence)
    await trial.start()
    session = await trial.session()
    await trial.arrived(session, trial.spec.messages - place - 1)
    stream = session.stream(lambda stream: stream.name == name)
    assert stream is not None
    expected = before[name][place + 1 :]
    trial.require(
        stream.messages[: len(expected)] == expected,
        f"{name}: after sequence {before[name][place].sequence} it sent {stream.messages[0]}, and not {expected[0]}",
    )


@checks.check("replay", "SRC-1", needs=("replayable", "messages"), standing=True)
async def replay(trial: SourceTrial) -> None:
    """The same position yields other messages after a restart, although the source is declared replayable."""
    before = await trial.baseline()
    await trial.start()
    session = await trial.session()
    await trial.arrived(session)
    after = {stream.name: list(stream.messages) for stream in session.streams.values()}
    different = sorted(name for name in before if before[name] != after.get(name, []))
    trial.require(not different, f"after a restart, {', '.join(different)} yields other messages from its beginning")


@checks.check("reopen", "SRC-44", needs=("messages",))
async def reopen(trial: SourceTrial) -> None:
    """It does not open a stream again after Reject REOPEN, or does not continue at the position that it is given then."""
    trial.gateway.acks = False
    await trial.start()
    session = await trial.session()
    await trial.arrived(session)
    first = _with_most(list(session.streams.values()))
    half = len(first.messages) // 2
    if first.kind == pb.SOURCE_KIND_REPLAYABLE:
        trial.gateway.resume_at(first.name, first.messages[half - 1].sequence)
        expected = first.messages[half:]
    else:
        expected = first.messages
    session.reject(first, pb.REJECT_REASON_REOPEN)
    await trial.until(
        lambda: _again(session, first) is not None, f"OpenStream of {first.name} under a new id, after Reject REOPEN"
    )
    second = _again(session, first)
    assert second is not None
    await trial.until(
        lambda: len(second.messages) >= len(expected), f"the {counted(len(expected), 'message')} after the new position"
    )
    if first.kind == pb.SOURCE_KIND_REPLAYABLE:
        trial.require(second.messages[: len(expected)] == expected, f"it continued with {second.messages[0]}, not {expected[0]}")


@checks.check("owned", "SRC-45")
async def owned(trial: SourceTrial) -> None:
    """It does not ask again for a stream that another instance owns, or does not wait for as long as the gateway says."""
    trial.gateway.on_asked = [_rejects(pb.REJECT_REASON_OWNED, _RETRY_MS)]
    await trial.start()
    session = await trial.session()
    first = await trial.stream_asked(session)
    await trial.until(lambda: _again(session, first) is not None, f"OpenStream of {first.name} again, after Reject OWNED")
    second = _again(session, first)
    assert second is not None
    waited_ms = 1000 * (second.asked_at - first.rejected_at)
    trial.require(waited_ms > 0.9 * _RETRY_MS, f"it asks again after {waited_ms:.0f} ms; retry_after_ms is {_RETRY_MS}")


@checks.check("not-permitted", "SRC-46")
async def not_permitted(trial: SourceTrial) -> None:
    """It asks again for a stream that its token does not permit."""
    trial.gateway.on_asked = [_rejects(pb.REJECT_REASON_NOT_PERMITTED, 0)]
    await trial.start()
    session = await trial.session()
    first = await trial.stream_asked(session)

    def asks_again() -> bool:
        return any(
            stream.name == first.name and stream is not first
            for session in trial.gateway.sessions
            for stream in session.streams.values()
        )

    await trial.never(
        asks_again, f"it asks for {first.name} again after Reject NOT_PERMITTED", max(1.0, trial.spec.deadlines.quiet)
    )


@checks.check("max-streams", "SRC-9", standing=True)
async def max_streams(trial: SourceTrial) -> None:
    """It has more streams open than Welcome allows."""
    trial.gateway.opens = False
    await trial.start()
    session = await trial.session()
    await trial.stream_asked(session)
    if not await trial.changes.until(lambda: len(session.streams) > 1, 3 * trial.spec.deadlines.quiet):
        raise NotJudged("the source has one stream")
    await trial.kill()
    trial.gateway.terms.max_streams = 1
    await trial.start()
    session = await trial.session()
    # A source that needs all its streams at once may give up instead.
    await trial.until(lambda: bool(session.streams) or session.ended, "OpenStream, or the end of the session", must_run=False)
    await trial.never(lambda: len(session.streams) > 1, "it opens a second stream although max_streams is 1")


def _rejects(reason: pb.RejectReason.ValueType, retry_after_ms: int) -> Answer:
    """An answer to OpenStream."""

    def answer(session: SourceSession, stream: Stream) -> None:
        session.reject(stream, reason, retry_after_ms)

    return answer


def _again(session: SourceSession, first: Stream) -> Stream | None:
    """The stream as it was opened again in the same session."""
    return session.stream(lambda stream: stream.name == first.name and stream is not first)


def _with_most(streams: list[Stream]) -> Stream:
    found = max(streams, key=lambda stream: len(stream.messages))
    if len(found.messages) < 3:
        raise NotJudged("needs a stream with at least 3 messages")
    return found
