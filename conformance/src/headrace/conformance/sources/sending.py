"""Checks of sources: frames, sequences, credit and pace."""

import time

from headrace.conformance.core.checks import Checks
from headrace.conformance.core.errors import NotJudged
from headrace.conformance.sources.session import SourceSession
from headrace.conformance.sources.trial import SourceTrial
from headrace.contract.counts import counted
from headrace.protocol.v1 import source_pb2 as pb

_IDLE_S = 0.3
_SMALL_FRAME_BYTES, _SMALL_FRAME_MESSAGES = 2048, 5
_FRAMES = 3
_SPENT_S = 0.02
_MIN_LINGER_S = 0.5
_PACED = 4
"""How many messages are produced one after the other, within the time to gather."""
_PACED_TRIES = 4
_MAX_BYTES = 1 << 20
_BESIDE_A_VALUE = 512
"""More than a frame of one message needs beside its value."""

checks: Checks[SourceTrial] = Checks()


@checks.check("sequences", "SRC-22", "SRC-23", "FRM-5", needs=("messages",), standing=True)
async def sequences(trial: SourceTrial) -> None:
    """Its sequences do not increase strictly within a stream, or are not in the allowed range."""
    await trial.start()
    await trial.arrived(await trial.session())


@checks.check(
    "frames",
    "FRM-1",
    "FRM-3",
    "FRM-4",
    "FRM-6",
    "FRM-7",
    "FRM-9",
    "FRM-10",
    "FRM-11",
    "FRM-12",
    "FRM-16",
    "FRM-18",
    "SRC-49",
    needs=("messages",),
    standing=True,
)
async def frames(trial: SourceTrial) -> None:
    """The columns of its frames contradict each other, or contain what the protocol does not allow, as may a cursor alone."""
    await trial.start()
    session = await trial.session()
    await trial.until(lambda: sum(frame.count for frame in session.frames) >= trial.spec.messages, "all messages")


@checks.check("frame-limits", "FRM-2", needs=("messages",), standing=True)
async def frame_limits(trial: SourceTrial) -> None:
    """It sends frames that are larger, or have more messages, than Welcome allows."""
    trial.gateway.terms.max_frame_bytes = _SMALL_FRAME_BYTES
    trial.gateway.terms.max_frame_messages = _SMALL_FRAME_MESSAGES
    await trial.start()
    await trial.arrived(await trial.session())


@checks.check("shared-messages", "FRM-17", needs=("messages",), standing=True)
async def shared_messages(trial: SourceTrial) -> None:
    """It sends several frames in one message although Welcome lacks CAPABILITY_FRAMES, or too many, or too many bytes."""
    trial.gateway.capabilities.remove(pb.CAPABILITY_FRAMES)
    await trial.start()
    await trial.arrived(await trial.session())


@checks.check("credit-bytes", "SRC-30", needs=("messages",), standing=True)
async def credit_bytes(trial: SourceTrial) -> None:
    """It sends more bytes than it has credit for; a frame uses its serialized length and frame_overhead_bytes."""
    trial.gateway.terms.credit_bytes = await _less_than_three_frames(trial)
    trial.gateway.acks = False
    await trial.start()
    session = await trial.session()
    await _spend(trial, session)


@checks.check("credit-messages", "SRC-30", needs=("messages",), standing=True)
async def credit_messages(trial: SourceTrial) -> None:
    """It sends more messages than it has credit for, down to a window of one message."""
    trial.gateway.terms.credit_messages = 1
    trial.gateway.acks = False
    await trial.start()
    session = await trial.session()
    await _spend(trial, session)


@checks.check("credit-returns", "SRC-31", needs=("messages",))
async def credit_returns(trial: SourceTrial) -> None:
    """It sends nothing more when credit comes by a Credit alone, without an Ack."""
    session = await trial.session_with_spent_credit(messages=2)
    await trial.silence()
    session.grant(0, trial.spec.messages)
    await trial.arrived(session)


@checks.check("credit-requests", "SRC-33", "SRC-34", needs=("messages", "credit_request"))
async def credit_requests(trial: SourceTrial) -> None:
    """It does not send CreditRequest for a stream whose next frame does not fit into its credit, or names a wrong size."""
    trial.gateway.terms.credit_bytes = trial.gateway.terms.frame_overhead_bytes + 1
    trial.gateway.grants = False
    await trial.start()
    session = await trial.session()
    await trial.until(lambda: session.stream(lambda stream: bool(stream.requests)) is not None, "CreditRequest")
    stream = session.stream(lambda stream: bool(stream.requests))
    assert stream is not None
    request = stream.requests[-1]
    trial.require(
        request.bytes > 0 and request.messages > 0,
        f"it asks for {request.bytes} bytes and {counted(request.messages, 'message')}",
    )
    limits = trial.gateway.terms
    trial.require(
        max(request.bytes, request.ready_bytes) <= limits.max_frame_bytes
        and max(request.messages, request.ready_messages) <= limits.max_frame_messages,
        f"it asks for a frame above the limits: {request}",
    )
    trial.gateway.grants = True
    trial.gateway.requested(session, stream, request)
    await trial.arrived(session)


@checks.check("stream-credit", "SRC-32", "SRC-33", needs=("messages", "credit_request"), standing=True)
async def stream_credit(trial: SourceTrial) -> None:
    """Credit for one stream is spent on another one, or the next frame is not of that stream."""
    session = await trial.session_with_spent_credit()
    await trial.silence()
    sent = session.frames[0].stream_id
    waiting = [stream for stream in session.streams.values() if stream.id != sent and stream.requests]
    if not waiting:
        if len(session.streams) < 2:
            raise NotJudged("the source has one stream")
        trial.require(False, "only the stream whose turn it was has sent CreditRequest; every stream that waits must")
    wanted = waiting[-1]
    request = wanted.requests[-1]
    session.grant(request.bytes + trial.gateway.terms.frame_overhead_bytes, request.messages, wanted)
    await trial.until(lambda: len(session.frames) > 1, f"a frame of {wanted.name}, which has got credit")
    found = session.streams[session.frames[1].stream_id]
    trial.require(found is wanted, f"the next frame is of {found.name}, and the credit was for {wanted.name}")


@checks.check("starvation", "SRC-30", needs=("messages",))
async def starvation(trial: SourceTrial) -> None:
    """It ends the session, or never sends again, when it has had no credit for a while."""
    session = await trial.session_with_spent_credit()
    await trial.pause(2 * trial.spec.deadlines.quiet)
    trial.require(not session.ended, "it ended the session while it had no credit")
    trial.gateway.acks = True
    session.grant(0, trial.spec.messages)
    session.acknowledge_all()
    await trial.arrived(session)


@checks.check("idle", "SRC-13", needs=("messages", "produce"))
async def idle(trial: SourceTrial) -> None:
    """A single message that comes after a pause is not sent until more follow."""
    await trial.start()
    session = await trial.session()
    await trial.arrived(session)
    await trial.pause(_IDLE_S)
    await trial.produce()
    await trial.until(lambda: session.messages > trial.spec.messages, "the message that was produced after a pause")
    await trial.pause(_IDLE_S)
    await trial.produce()
    await trial.until(lambda: session.messages > trial.spec.messages + 1, "a further message that was produced after a pause")


@checks.check("pace", "SRC-36", needs=("messages", "produce", "pace"))
async def pace(trial: SourceTrial) -> None:
    """It declares CAPABILITY_PACE, or is declared to, and does not gather messages for as long as Pace says."""
    await trial.start()
    session = await trial.session()
    assert session.hello is not None
    trial.require(pb.CAPABILITY_PACE in session.hello.capabilities, "its Hello does not declare CAPABILITY_PACE")
    await trial.arrived(session)
    linger_s, arrived = _MIN_LINGER_S, trial.spec.messages
    for _ in range(_PACED_TRIES):
        session.send(pace=pb.Pace(linger_ms=round(1000 * linger_s)))
        await trial.produce()
        arrived += 1
        await trial.arrived(session, arrived, linger_s + trial.spec.deadlines.answer)
        before, began = len(session.frames), time.monotonic()
        for _ in range(_PACED):
            await trial.produce()
        took_s = time.monotonic() - began
        arrived += _PACED
        await trial.arrived(session, arrived, linger_s + trial.spec.deadlines.answer)
        sent = len(session.frames) - before
        if sent < _PACED:
            return
        # Whoever produces may have been too slow for the connector to gather anything.
        linger_s = max(2 * linger_s, 2 * took_s)
    trial.require(False, f"{_PACED} messages were sent in {_PACED} frames, {_PACED_TRIES} times, whatever Pace says")


@checks.check("backlog", "SRC-24", "SRC-25", needs=("messages", "backlog"))
async def backlog(trial: SourceTrial) -> None:
    """It does not report by Backlog that a stream has caught up, or names a last sequence before one that exists."""
    await trial.start()
    session = await trial.session()
    await trial.arrived(session)

    def caught_up() -> bool:
        return all(
            any(report.HasField("latest_sequence") and report.latest_sequence == (stream.last or 0) for report in stream.backlogs)
            for stream in session.streams.values()
        )

    await trial.until(caught_up, "Backlog whose latest_sequence is the last sequence sent, for each stream")


@checks.check("empty-message", "FRM-7", needs=("messages", "sizes"))
async def empty_message(trial: SourceTrial) -> None:
    """A message with an empty value is not sent, or not as it is."""
    await trial.start()
    session = await trial.session()
    await trial.arrived(session)
    await trial.produce(1, 0)
    await trial.until(lambda: session.messages > trial.spec.messages, "the message with an empty value")
    values = [value for stream in session.streams.values() for value in stream.values]
    trial.require(b"" in values, "a message arrived, and no value is empty")


@checks.check("largest-message", "FRM-2", "SRC-34", needs=("messages", "sizes"))
async def largest_message(trial: SourceTrial) -> None:
    """A message that just fits into max_frame_bytes is not sent, or not as it is."""
    trial.gateway.terms.max_frame_bytes = _MAX_BYTES
    await trial.start()
    session = await trial.session()
    await trial.arrived(session)
    size = _MAX_BYTES - _BESIDE_A_VALUE
    await trial.produce(1, size)
    await trial.until(lambda: session.messages > trial.spec.messages, f"the message with a value of {size} bytes")
    lengths = [len(value or b"") for stream in session.streams.values() for value in stream.values]
    trial.require(size in lengths, f"a message of {lengths[-1]} bytes arrived; {size} were produced")


async def _less_than_three_frames(trial: SourceTrial) -> int:
    """A window in which the source's third frame lacks one byte."""
    trial.gateway.terms.max_frame_messages = 2
    await trial.baseline()
    session = trial.gateway.last_session
    assert session is not None
    if len(session.frames) < _FRAMES:
        raise NotJudged(f"needs messages for {_FRAMES} frames")
    overhead = trial.gateway.terms.frame_overhead_bytes
    return sum(frame.ByteSize() + overhead for frame in session.frames[:_FRAMES]) - 1


async def _spend(trial: SourceTrial, session: SourceSession) -> None:
    """Returns credit each time the source has stopped for want of it, until everything has arrived."""
    spent = 0
    while spent < trial.spec.messages:
        await trial.arrived(session, spent + 1)
        await trial.until_quiet(_SPENT_S)
        spent = session.messages
        session.acknowledge_all()
