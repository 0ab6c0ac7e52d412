"""Checks of sources: how streams end, lose what they had, and choose where they begin."""

from headrace.conformance.core.checks import Checks
from headrace.conformance.sources.session import SourceSession
from headrace.conformance.sources.stream import Stream
from headrace.conformance.sources.trial import SourceTrial, fullest
from headrace.contract.counts import counted
from headrace.protocol.v1 import source_pb2 as pb

_OFFERED_AGAIN_S = 3.0

checks: Checks[SourceTrial] = Checks()


@checks.check("end-of-stream", "SRC-37", "SES-19", needs=("messages", "ends"))
async def end_of_stream(trial: SourceTrial) -> None:
    """At its end it does not close its streams with end_of_stream, or does not end with Goodbye and exit code 0."""
    await trial.start()
    session = await trial.session()
    await trial.arrived(session)

    def all_ended() -> bool:
        return all(stream.ended for stream in session.streams.values())

    await trial.until(all_ended, "CloseStream with end_of_stream", must_run=False)
    undeclared = [stream.name for stream in _ended_streams(session) if not trial.spec.gone]
    trial.require(not undeclared, f"CloseStream of {', '.join(undeclared)} has gone, which is not declared")
    await trial.ends(session)


@checks.check("gone", "SRC-38", needs=("messages", "gone"), standing=True)
async def gone(trial: SourceTrial) -> None:
    """It does not close its streams with gone and end_of_stream, or offers one again that is gone."""
    await trial.start()
    session = await trial.session()
    await trial.arrived(session)
    await trial.until(lambda: bool(_ended_streams(session)), "CloseStream with gone", must_run=False)
    await trial.until_quiet()
    names = {stream.name for stream in _ended_streams(session)}
    # It learns of the acknowledgements before it ends by itself or by a signal.
    trial.terminate()
    await trial.exits("the end of the process after SIGTERM")
    before = len(trial.gateway.sessions)
    await trial.start()

    def offered() -> bool:
        return any(names & {stream.name for stream in later.streams.values()} for later in trial.gateway.sessions[before:])

    await trial.changes.until(lambda: offered() or not trial.process.running, _OFFERED_AGAIN_S)
    trial.require(not offered(), "after a restart it opens a stream again that is gone")


@checks.check("last-acks", "SRC-40", needs=("messages", "ends"))
async def last_acks(trial: SourceTrial) -> None:
    """It leaves before its last messages are acknowledged."""
    trial.gateway.acks = False
    await trial.start()
    session = await trial.session()
    await trial.arrived(session)
    await trial.never(
        lambda: session.goodbye is not None or session.ended,
        "it has left, and nothing is acknowledged",
    )
    session.acknowledge_all()


@checks.check("reopen-after-end", "SRC-44", needs=("replayable", "messages", "ends"))
async def reopen_after_end(trial: SourceTrial) -> None:
    """It does not send again what follows the resume position when a stream is rejected that has ended."""
    trial.gateway.acks = False
    await trial.start()
    session = await trial.session()
    await trial.arrived(session)
    # Whether it closes its streams at all is for another check.
    closed_s = trial.spec.deadlines.quiet
    await trial.changes.until(lambda: all(stream.ended for stream in session.streams.values()), closed_s)
    name = fullest({stream.name: stream.messages for stream in session.streams.values()})
    first = session.stream(lambda stream: stream.name == name)
    assert first is not None
    session.reject(first, pb.REJECT_REASON_REOPEN)

    def again() -> Stream | None:
        return session.stream(lambda stream: stream.name == name and stream is not first)

    await trial.until(lambda: again() is not None, f"OpenStream of {name} again")
    second = again()
    assert second is not None
    await trial.until(lambda: second.messages == first.messages, f"the {counted(len(first.messages), 'message')} of {name} again")


@checks.check("position-lost", "SRC-41", "SRC-16", needs=("replayable", "messages", "lose"))
async def position_lost(trial: SourceTrial) -> None:
    """It does not report by PositionLost that what follows the resume position is gone, or sends without skip_lost."""
    before = await trial.baseline()
    name = fullest(before)
    trial.gateway.resume_at(name, before[name][0].sequence)
    assert trial.spec.lose is not None
    await trial.run("lose", trial.spec.lose)
    # What follows a loss may be something else.
    trial.gateway.received.clear()
    await trial.start()
    session = await trial.session()

    def lost() -> Stream | None:
        return session.stream(lambda stream: stream.name == name and stream.lost is not None)

    await trial.until(lambda: lost() is not None, f"PositionLost of {name}")
    first = lost()
    assert first is not None
    trial.require(not first.messages, f"{name}: it sent messages of a position that is lost")
    trial.gateway.on_asked = [lambda session, stream: session.open(stream, skip_lost=True)]
    await trial.until(
        lambda: session.stream(lambda s: s.name == name and s is not first and bool(s.messages)) is not None,
        f"what is left of {name}, after skip_lost",
    )


@checks.check("starts", "SRC-18", "SRC-20", needs=("replayable", "messages", "chooses_start"))
async def starts(trial: SourceTrial) -> None:
    """Starts does not name every stream that chooses its start, or is another one when the gateway asks again."""
    answers: list[dict[str, int | None]] = []
    trial.gateway.opens = False
    await trial.start()
    for _ in range(2):
        session = await trial.session()
        first = await trial.stream_asked(session)
        await trial.silence()
        session.send(starts_wanted=pb.StartsWanted(stream_id=first.id))
        choosing = [stream for stream in session.streams.values() if stream.chooses_start]
        await trial.until(
            lambda choosing=choosing: all(stream.starts is not None for stream in choosing),  # type: ignore[misc]
            f"Starts that names {', '.join(stream.name for stream in choosing)}",
        )
        answers.append({stream.name: _place(stream) for stream in choosing})
        await trial.cut()
        if trial.spec.produce is not None:
            await trial.produce()
        await trial.bring_back()
    trial.require(answers[0] == answers[1], f"first {answers[0]}, and after a restart of the gateway {answers[1]}")


def _ended_streams(session: SourceSession) -> list[Stream]:
    return [stream for stream in session.streams.values() if stream.closed is not None and stream.closed.gone]


def _place(stream: Stream) -> int | None:
    assert stream.starts is not None
    return stream.starts.position.sequence if stream.starts.HasField("position") else None
