"""Checks of sources: acknowledgements, and interruptions of every kind."""

from headrace.conformance.core.checks import Checks
from headrace.conformance.core.errors import NotJudged
from headrace.conformance.core.frames import Message
from headrace.conformance.sources.session import SourceSession
from headrace.conformance.sources.trial import SourceTrial
from headrace.protocol.v1 import source_pb2 as pb
from headrace.protocol.v1.frame_pb2 import Position

_SLOW_S = 1.5
_DRAIN_MS = 5000
_FRAME_MESSAGES = 3

Identity = tuple[str | None, bytes | None, bytes | None]

checks: Checks[SourceTrial] = Checks()


@checks.check("acks", "SRC-27", needs=("messages",))
async def acks(trial: SourceTrial) -> None:
    """It cannot take acknowledgements in the middle of a frame, of several streams at once, or that skip positions."""
    trial.gateway.acks = False
    await trial.start()
    session = await trial.session()
    await trial.arrived(session)
    streams = [stream for stream in session.streams.values() if stream.messages]
    session.acknowledge(*((stream, 1) for stream in streams))
    for stream in streams:
        if len(stream.messages) > 1:
            session.acknowledge((stream, len(stream.messages) - 1))
    session.acknowledge(*((stream, len(stream.messages)) for stream in streams))
    await _goes_on(trial, session)


@checks.check("lost-acks", "SRC-15", needs=("replayable", "messages"))
async def lost_acks(trial: SourceTrial) -> None:
    """It waits for an Ack that does not come, since StreamOpened has said already that everything is acknowledged."""
    trial.gateway.acks = False
    await trial.start()
    session = await trial.session()
    await trial.arrived(session)
    # It is in the checkpoint, and the connection breaks before the connector hears of it.
    for stream in session.streams.values():
        if stream.messages:
            trial.gateway.commit(stream, stream.messages[-1].sequence)
    await trial.cut()
    trial.gateway.acks = True
    await trial.bring_back()
    await _goes_on(trial, await trial.session(), already=0)


@checks.check("slow-gateway", "SES-12", needs=("messages",))
async def slow_gateway(trial: SourceTrial) -> None:
    """It gives up on a gateway that answers late: with Welcome, StreamOpened, reading, or an Ack."""
    gateway = trial.gateway
    gateway.welcomes = gateway.opens = gateway.acks = False
    await trial.start()
    session = await trial.session()
    await trial.pause(_SLOW_S)
    session.welcome()
    await trial.stream_asked(session)
    await trial.pause(_SLOW_S)
    gateway.opens = True
    gateway.reads.clear()
    for stream in session.streams.values():
        session.open(stream)
    await trial.pause(_SLOW_S)
    gateway.reads.set()
    await trial.arrived(session)
    await trial.pause(_SLOW_S)
    trial.require(not session.ended, "it ended the session while the gateway was slow")
    session.acknowledge_all()
    gateway.acks = True
    await _goes_on(trial, session)


@checks.check("gateway-restart", "SRC-47", "SRC-4", needs=("messages",))
async def gateway_restart(trial: SourceTrial) -> None:
    """It does not come back to a gateway that was away, or does not continue where the new session says."""
    trial.gateway.acks = False
    await trial.start()
    first = await trial.session()
    await trial.arrived(first)
    everything = {stream.name: list(stream.messages) for stream in first.streams.values()}
    if trial.spec.kind == "replayable":
        for stream in first.streams.values():
            if len(stream.messages) > 1:
                trial.gateway.commit(stream, stream.messages[len(stream.messages) // 2 - 1].sequence)
    await trial.cut()
    await trial.pause(trial.spec.deadlines.quiet)
    await trial.bring_back()
    second = await trial.session()
    wanted = {name: _after(messages, trial.gateway.resumes.get(name)) for name, messages in everything.items()}
    await trial.arrived(second, sum(map(len, wanted.values())))
    if trial.spec.kind == "replayable":
        for stream in second.streams.values():
            expected = wanted.get(stream.name, [])
            trial.require(stream.messages[: len(expected)] == expected, f"{stream.name}: it sent other messages")


@checks.check("crash", "SRC-28", needs=("messages",))
async def crash(trial: SourceTrial) -> None:
    """After SIGKILL and a restart, messages that were not acknowledged do not come again."""
    trial.gateway.acks = False
    await trial.start()
    session = await trial.session()
    await trial.arrived(session)
    for stream in list(session.streams.values()):
        if len(stream.messages) > 1:
            session.acknowledge((stream, len(stream.messages) // 2))
    left = [message for stream in session.streams.values() for message in stream.messages[stream.acknowledged :]]
    # The connector has time to act on the acknowledgement.
    await trial.silence()
    await trial.kill()
    await trial.start()
    second = await trial.session()

    def missing() -> list[Identity]:
        return _missing(left, second)

    await trial.until(lambda: not missing(), "the messages again that were not acknowledged")


@checks.check("redelivery", "SRC-2", "SRC-29", needs=("redelivering", "messages"))
async def redelivery(trial: SourceTrial) -> None:
    """After a lost session, a message that was acknowledged comes again, or one that was not does not."""
    trial.gateway.acks = False
    await trial.start()
    session = await trial.session()
    await trial.arrived(session)
    done: list[Message] = []
    for stream in list(session.streams.values()):
        half = len(stream.messages) // 2
        if half:
            session.acknowledge((stream, half))
            done += stream.messages[:half]
    left = [message for stream in session.streams.values() for message in stream.messages[stream.acknowledged :]]
    # The connector hears of the acknowledgement, and has time to tell its queue.
    await trial.pause(2 * trial.spec.deadlines.quiet)
    await trial.cut()
    await trial.bring_back()
    second = await trial.session()
    await trial.until(lambda: not _missing(left, second), "the messages again that were not acknowledged")
    await trial.silence()
    again = {_identity(message) for stream in second.streams.values() for message in stream.messages}
    repeated = [message for message in done if _identity(message) in again]
    trial.require(not repeated, f"{len(repeated)} acknowledged messages came again, such as {repeated[:1] and str(repeated[0])}")


@checks.check("epochs", "SRC-2", needs=("redelivering", "messages"))
async def epochs(trial: SourceTrial) -> None:
    """It does not count its sequences from 1 after each StreamOpened."""
    trial.gateway.acks = False
    await trial.start()
    session = await trial.session()
    await trial.arrived(session)
    for stream in list(session.streams.values()):
        session.reject(stream, pb.REJECT_REASON_REOPEN)
    await trial.arrived(session, 2 * trial.spec.messages)
    for stream in session.streams.values():
        if stream.messages:
            first = stream.messages[0].sequence
            trial.require(first == 1, f"{stream.name}, id {stream.id}: begins with sequence {first}")


@checks.check("earlier-epoch", "SRC-48", needs=("redelivering", "messages"))
async def earlier_epoch(trial: SourceTrial) -> None:
    """It leaves messages out because a checkpoint has a position of an earlier epoch, or counts on from there."""
    trial.gateway.acks = False
    await trial.start()
    session = await trial.session()
    await trial.arrived(session)
    left: list[Message] = []
    for stream in list(session.streams.values()):
        half = len(stream.messages) // 2
        if half:
            session.acknowledge((stream, half))
            last = stream.messages[half - 1].sequence
            cursor = trial.gateway.cursor(stream.name, last)
            trial.gateway.earlier[stream.name] = Position(epoch=stream.epoch, sequence=last, cursor=cursor)
        left += stream.messages[half:]
    await trial.silence()
    await trial.kill()
    await trial.start()
    second = await trial.session()
    await trial.until(lambda: not _missing(left, second), "the messages again that were not acknowledged")
    for stream in second.streams.values():
        if stream.messages:
            first = stream.messages[0].sequence
            trial.require(first == 1, f"{stream.name}, id {stream.id}: begins with sequence {first}")


@checks.check("resume-cursor", "SRC-50", needs=("resumable", "messages"))
async def resume_cursor(trial: SourceTrial) -> None:
    """It leaves messages out after the cursor of `resume`, or does not count on from there, or from 1 in a new epoch."""
    trial.gateway.acks = False
    trial.gateway.terms.max_frame_messages = _FRAME_MESSAGES
    await trial.start()
    session = await trial.session()
    await trial.arrived(session)
    left: list[Message] = []
    for stream in list(session.streams.values()):
        sequences = [message.sequence for message in stream.messages[:-1]]
        counts = [n for n, sequence in enumerate(sequences, 1) if trial.gateway.has_cursor_at(stream.name, sequence)]
        upto = counts[len(counts) // 2] if counts else 0
        if upto:
            session.acknowledge((stream, upto))
        left += stream.messages[upto:]
    if not trial.gateway.resumes:
        raise NotJudged("no frame has a cursor, except for the last of a stream")
    await _continues(trial, left, in_the_same_epoch=True)
    await _continues(trial, left, in_the_same_epoch=False)


async def _continues(trial: SourceTrial, left: list[Message], *, in_the_same_epoch: bool) -> None:
    """Lets the source continue after a cursor, in another session."""
    trial.gateway.continues = in_the_same_epoch
    await trial.cut()
    await trial.bring_back()
    session = await trial.session()
    await trial.until(lambda: not _missing(left, session), "everything that follows the cursor")
    for stream in session.streams.values():
        if stream.messages:
            first, expected = stream.messages[0].sequence, 1 + (0 if stream.resume is None else stream.resume.sequence)
            trial.require(first == expected, f"{stream.name}: it begins with sequence {first}, not {expected}")


@checks.check("cursor-order", "SRC-51", needs=("resumable", "messages"), standing=True)
async def cursor_order(trial: SourceTrial) -> None:
    """The bytes of its cursors do not have the order of their places."""
    await trial.start()
    await trial.arrived(await trial.session())


@checks.check("drain", "SES-20", needs=("messages",))
async def drain(trial: SourceTrial) -> None:
    """After Drain it sends new messages, does not say Goodbye by the deadline, or does not reconnect."""
    session = await trial.session_with_spent_credit()
    await trial.silence()
    before = len(session.frames)
    session.drain(_DRAIN_MS)
    # It has the Drain before it has this credit: what it sends with it is new.
    session.grant(0, trial.spec.messages)
    session.acknowledge_all()
    await trial.until(
        lambda: session.goodbye is not None or session.ended, "Goodbye after Drain", _DRAIN_MS / 1000, must_run=False
    )
    trial.require(len(session.frames) == before, "it sent messages after Drain")
    trial.require(session.goodbye is not None, "it ended the call without Goodbye after Drain")
    trial.gateway.terms.credit_messages = 100_000
    trial.gateway.acks = True
    second = await trial.session()
    await trial.arrived(second, trial.spec.messages - session.messages)


async def _goes_on(trial: SourceTrial, session: SourceSession, already: int | None = None) -> None:
    """Sees that the source continues after its acknowledgements: it ends if it is to end, else it sends what is produced."""
    if trial.spec.ends:
        await trial.ends(session)
    elif trial.spec.produce is not None:
        trial.gateway.acks = True
        await trial.produce()
        await trial.arrived(session, (trial.spec.messages if already is None else already) + 1)
    else:
        await trial.never(lambda: session.ended, "it ended the session after the acknowledgements")


def _after(messages: list[Message], position: object) -> list[Message]:
    sequence = getattr(position, "sequence", -1)
    return [message for message in messages if message.sequence > sequence]


def _identity(message: Message) -> Identity:
    """The identity of a message, by which it is recognised when it comes again."""
    return message.message_id, message.key, message.value


def _missing(expected: list[Message], session: SourceSession) -> list[Identity]:
    found = {_identity(message) for stream in session.streams.values() for message in stream.messages}
    return [identity for identity in map(_identity, expected) if identity not in found]
