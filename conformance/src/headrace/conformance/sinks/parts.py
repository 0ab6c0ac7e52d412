"""Checks of sinks: how a session begins, and how parts arrive, are staged, refused and dropped."""

import time

from headrace.conformance.core.checks import Checks
from headrace.conformance.core.close_checks import declare_close_checks
from headrace.conformance.core.connection_checks import declare_connection_checks
from headrace.conformance.core.frames import Message
from headrace.conformance.core.session_checks import declare_session_checks, short_names
from headrace.conformance.sinks.session import SinkSession
from headrace.conformance.sinks.trial import SinkTrial, part, rows, transaction
from headrace.contract.limits import MAX_NAME_BYTES, PROTOCOL_VERSION
from headrace.contract.names import is_name
from headrace.protocol.v1 import sink_pb2 as pb

_MODES = {
    "two-phase": pb.SINK_MODE_TWO_PHASE,
    "batch-idempotent": pb.SINK_MODE_BATCH_IDEMPOTENT,
    "at-least-once": pb.SINK_MODE_AT_LEAST_ONCE,
}
_DRAIN_MS = 5000
_READ_TIMEOUT_MS = 1500
_FLOOD_FRAMES, _FLOOD_ROWS, _ROW_BYTES = 24, 512, 1024
_LARGE_ROWS = 3900
_ATTEMPTS = ("run-1/0", "../../run-2/1", "run 3/%2F*?$(id);'\"|", "3/../..")

checks: Checks[SinkTrial] = Checks()


@checks.check("hello", "SES-1", "SES-3", "SES-4", "SES-6", "SNK-1", standing=True)
async def hello(trial: SinkTrial) -> None:
    """It does not begin with one SinkHello of protocol version 1 that names it, and wait for SinkWelcome."""
    trial.gateway.welcomes = False
    session = await trial.begin()
    said = session.hello
    assert said is not None
    trial.require(said.protocol_version == PROTOCOL_VERSION, f"protocol_version is {said.protocol_version}")
    trial.require(bool(said.connector), "connector is empty")
    trial.require(bool(said.instance), "instance is empty")
    short_names(trial, said)
    trial.require(is_name(said.sink), f"sink is {said.sink!r}; 1 to 255 ASCII letters, digits and ._- are allowed")
    # A breach is noted where it sends anything else before SinkWelcome.
    await trial.never(lambda: bool(trial.breaches), "it sends something else before it has SinkWelcome")
    session.welcome()
    await trial.staged(session, part(transaction(0)), rows("hello"))


@checks.check("mode", "SNK-2")
async def mode(trial: SinkTrial) -> None:
    """Its SinkHello has another mode than its specification declares."""
    session = await trial.begin()
    assert session.hello is not None
    trial.require(session.hello.mode == _MODES[trial.spec.mode], f"mode is {pb.SinkMode.Name(session.hello.mode)}")


declare_session_checks(checks)
declare_close_checks(checks)
declare_connection_checks(checks)


@checks.check("staged", "SNK-13")
async def staged(trial: SinkTrial) -> None:
    """It does not answer EndPart with Staged."""
    session = await trial.begin()
    number = session.start(part(transaction(0)))
    session.rows(number, rows("one"))
    session.rows(number, rows("two"))
    session.end(number)
    answer = await trial.stages(session, number)
    trial.require(not answer.refused, f"it refuses ordinary messages: {[refused.reason for refused in answer.refused]}")


@checks.check("empty-part", "SNK-13")
async def empty_part(trial: SinkTrial) -> None:
    """It does not answer EndPart of a part without messages, or cannot publish it."""
    session = await trial.begin()
    of = transaction(0)
    await trial.staged(session, part(of), [])
    await trial.publish(session, of, part(of))


@checks.check("answers", "SNK-13", "SNK-23", standing=True)
async def answers(trial: SinkTrial) -> None:
    """It sends an answer to nothing, before EndPart, or twice."""
    session = await trial.begin()
    of = transaction(0)
    number = session.start(part(of))
    session.rows(number, rows("a"))
    await trial.silence()
    session.end(number)
    await trial.stages(session, number)
    await trial.publish(session, of, part(of))
    await trial.silence()


@checks.check("interleaved", "SNK-10", needs=("read",))
async def interleaved(trial: SinkTrial) -> None:
    """It mixes parts up whose frames are interleaved, or loses rows of them."""
    session = await trial.begin()
    of = transaction(0)
    names = [part(of, 0), part(of, 1)]
    left, right = (session.start(name) for name in names)
    session.rows(left, rows("l0"))
    session.rows(right, rows("r0"))
    session.rows(left, rows("l1"))
    session.end(right)
    await trial.stages(session, right)
    session.rows(left, rows("l2"))
    session.end(left)
    await trial.stages(session, left)
    await trial.publish(session, of, *names)
    await trial.shows([row for name in ("l0", "l1", "l2", "r0") for row in rows(name)], "after two interleaved parts")


@checks.check("columns", "SNK-11", needs=("read",))
async def columns(trial: SinkTrial) -> None:
    """It cannot take rows without keys, times, ids or headers, for all or for single ones, or null values."""
    session = await trial.begin()
    of = transaction(0)
    number = session.start(part(of))
    bare = [Message(b"bare-0"), Message(b"bare-1")]
    some = [
        Message(b"some-0", b"key", 0, 1_700_000_000_000_000, "id-0", (("name", b"value"), ("null", None))),
        Message(b"some-1"),
        Message(b"some-2", b"", message_id=""),
    ]
    null = [Message(None, b"null"), Message(b"after-null")]
    for batch in (bare, some, null):
        session.rows(number, batch)
    session.end(number)
    answer = await trial.stages(session, number)
    refused = {message.sequence for message in answer.refused}
    await trial.publish(session, of, part(of))
    sent = [*bare, *some, *null]
    expected = [row for index, row in enumerate(sent) if index not in refused]
    # Not every system has a null.
    trial.require(all(_has_null(row) for row in sent if row not in expected), f"it refuses ordinary messages: {sorted(refused)}")
    await trial.shows(expected, "after rows with few columns")


@checks.check("large-part", "SNK-12", needs=("read",))
async def large_part(trial: SinkTrial) -> None:
    """It cannot take a message of nearly 4 MiB, or loses some of it."""
    session = await trial.begin()
    of = transaction(0)
    many = [Message(b"%08d" % index + b"x" * (_ROW_BYTES - 8)) for index in range(_LARGE_ROWS)]
    await trial.staged(session, part(of), many)
    await trial.publish(session, of, part(of))
    await trial.shows(many, "after a large frame")


@checks.check("attempt-names", "SNK-19", needs=("read",))
async def attempt_names(trial: SinkTrial) -> None:
    """It takes the attempt of a part for something else than opaque text, such as a part of a path."""
    session = await trial.begin()
    of = transaction(0)
    parts = [part(of, index, attempt) for index, attempt in enumerate(_ATTEMPTS)]
    for index, name in enumerate(parts):
        await trial.staged(session, name, rows(f"attempt{index}"))
    await trial.publish(session, of, *parts)
    await trial.shows([row for index in range(len(parts)) for row in rows(f"attempt{index}")], "after parts with odd attempts")


@checks.check("long-names", "SNK-4", "SNK-19", needs=("read",))
async def long_names(trial: SinkTrial) -> None:
    """It cannot take a pipeline or an attempt with a name of 255 bytes."""
    session = await trial.begin()
    of = transaction(0, "p" * MAX_NAME_BYTES)
    name = part(of, 0, ("run/" + "7" * MAX_NAME_BYTES)[:MAX_NAME_BYTES])
    await trial.staged(session, name, rows("long"))
    await trial.publish(session, of, name)
    await trial.shows(rows("long"), "after a part with long names")


@checks.check("refusals", "SNK-15", needs=("refused", "read"), standing=True)
async def refusals(trial: SinkTrial) -> None:
    """It does not name the messages that it refuses, each once, ascending, or does not stage the others."""
    assert trial.spec.refused is not None
    bad = Message(trial.spec.refused.encode())
    session = await trial.begin()
    of = transaction(0)
    number = session.start(part(of))
    session.rows(number, [*rows("before"), bad])
    session.rows(number, [*rows("between"), bad, *rows("after")])
    session.end(number)
    answer = await trial.stages(session, number)
    named = [refused.sequence for refused in answer.refused]
    trial.require(named == [3, 7], f"it refuses the messages {named}, and not 3 and 7, which have the value {bad.value!r}")
    trial.require(all(refused.reason for refused in answer.refused), "it refuses messages without a reason")
    await trial.publish(session, of, part(of))
    await trial.shows([*rows("before"), *rows("between"), *rows("after")], "after a part with two refused messages")


@checks.check("drop-part", "SNK-17", needs=("transactional", "read"))
async def drop_part(trial: SinkTrial) -> None:
    """It does not discard a part after DropPart, or answers what still arrives of it."""
    session = await trial.begin()
    of = transaction(0)
    partial = session.start(part(of, 0, "run-1/0"))
    session.rows(partial, rows("partial"))
    session.drop(partial)
    session.rows(partial, rows("late"))
    session.end(partial)
    whole = await trial.staged(session, part(of, 0, "run-1/1"), rows("whole"))
    session.drop(whole)
    await trial.staged(session, part(of, 0, "run-1/2"), rows("counts"))
    trial.require(not session.parts[partial].answered, f"part {partial}: an answer after DropPart")
    await trial.publish(session, of, part(of, 0, "run-1/2"))
    await trial.shows(rows("counts"), "after two dropped parts")


@checks.check("discard-unknown", "SNK-17", "SNK-30")
async def discard_unknown(trial: SinkTrial) -> None:
    """It answers DropPart or Abort of something that it does not have, or ends the session."""
    session = await trial.begin()
    session.drop(99)
    session.abort(transaction(7))
    await trial.staged(session, part(transaction(8)), rows("goes-on"))
    told = any(name == "answers" for name, _ in trial.breaches) or bool(session.unasked)
    trial.require(not told, "it answered DropPart or Abort of something that it does not have")


@checks.check("back-pressure", "SNK-35", "SES-12")
async def back_pressure(trial: SinkTrial) -> None:
    """It neither reads nor sends anything for longer than read_timeout_ms."""
    trial.gateway.read_timeout_ms = _READ_TIMEOUT_MS
    session = await trial.begin()
    number = session.start(part(transaction(0)))
    for frame in range(_FLOOD_FRAMES):
        session.rows(number, [Message(b"%04d" % frame + b"y" * (_ROW_BYTES - 4)) for _ in range(_FLOOD_ROWS)])
    session.end(number)
    moved, since = _progress(session), time.monotonic()
    while not session.parts[number].answered:
        await trial.changes.next(0.05)
        if (now := _progress(session)) != moved:
            moved, since = now, time.monotonic()
        stuck_s = time.monotonic() - since
        waits = not session.outgoing.empty()
        trial.require(not (waits and stuck_s > _READ_TIMEOUT_MS / 1000), f"it neither read nor sent anything for {stuck_s:.1f} s")
        trial.require(stuck_s < trial.spec.deadlines.answer, f"not within {stuck_s:.0f} s: Staged for part {number}")
        trial.require(not session.ended, "it ended the session while a large part was sent")


@checks.check("drain", "SES-20")
async def drain(trial: SinkTrial) -> None:
    """After SinkDrain it does not answer what it has received, does not say Goodbye by the deadline, or does not reconnect."""
    session = await trial.begin()
    number = session.deliver(part(transaction(0)), rows("a"))
    session.drain(_DRAIN_MS)
    state = session.parts[number]
    await trial.until(lambda: session.goodbye is not None or session.ended, "SinkGoodbye after SinkDrain", _DRAIN_MS / 1000)
    trial.require(state.answered, "it left without an answer to EndPart, which it had received before SinkDrain")
    trial.require(session.goodbye is not None, "it ended the call without SinkGoodbye after SinkDrain")
    await trial.session()


def _progress(session: SinkSession) -> tuple[int, int]:
    return session.written, session.heard


def _has_null(row: Message) -> bool:
    return row.value is None or any(value is None for _, value in row.headers)
