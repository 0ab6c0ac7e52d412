"""What connectors report of themselves, and what the gateway does with a Report that it should not have received."""

import asyncio
from contextlib import AsyncExitStack, suppress
from importlib import import_module
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.gateway.sink_wire import SinkClient
from tests.gateway.test_reasons import CLERK, SECRET, Stage, how_it_ended
from tests.gateway.wire import Engine, serve

from headrace.gateway.core.connections import reported
from headrace.protocol.v1 import admin_pb2, connector_pb2, sink_pb2, source_pb2

RUNNING = connector_pb2.CONNECTOR_STATE_RUNNING
DEGRADED = connector_pb2.CONNECTOR_STATE_DEGRADED
WAITING = connector_pb2.CONNECTOR_STATE_WAITING
LONG = "x" * (reported.MAX_TEXT_BYTES + 1)
SDK = connector_pb2.Sdk(name="headrace-test", version="9", language="cobol")


def error(message: str, age_ms: int = 0, stream: str = "") -> connector_pb2.ConnectorError:
    return connector_pb2.ConnectorError(message=message, age_ms=age_ms, stream=stream)


def report(state: connector_pb2.ConnectorState.ValueType = RUNNING, **fields: Any) -> connector_pb2.Report:
    return connector_pb2.Report(state=state, **fields)


async def status_of_one(engine: Engine, state: int, errors: int) -> admin_pb2.ReportedStatus:
    """The report of the only session, once it has a state and a number of errors."""

    def found(status: admin_pb2.GetStatusResponse) -> list[admin_pb2.ReportedStatus]:
        return [session.reported for session in (*status.sessions, *status.sink_sessions)]

    def holds(status: admin_pb2.GetStatusResponse) -> bool:
        return any(each.state == state and len(each.errors) == errors for each in found(status))

    [one] = found(await engine.status_once(holds))
    return one


async def too_late(session: Any, sent: connector_pb2.Report) -> None:
    """Sends a Report in a session that the gateway is about to end, or has ended."""
    with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        await session.send(report=sent)


@pytest.fixture
async def stage(stack: AsyncExitStack) -> Any:
    async with serve() as (gateway, address), stack:
        yield Stage(gateway, address, stack)


async def test_the_gateway_says_what_it_can_do(stage: Stage) -> None:
    names = ("PACE", "HEARTBEAT", "FRAMES", "CURSORS")
    of_source = [source_pb2.Capability.Value(f"CAPABILITY_{name}") for name in names]
    assert list((await stage.session()).welcome.capabilities) == of_source
    assert list((await stage.sink().hello()).capabilities) == [source_pb2.CAPABILITY_HEARTBEAT, source_pb2.CAPABILITY_RUNS]


async def test_the_status_of_a_source_says_what_its_connector_reports(stage: Stage) -> None:
    connector = stage.connector()
    hello = source_pb2.Hello(protocol_version=1, connector="c", instance="i", sdk=SDK)
    await connector.send(hello=hello)
    await connector.expect("welcome")
    errors = [error("older", 5_000), error("newer", 10, "orders/0")]
    await connector.send(report=report(DEGRADED, state_age_ms=60_000, reason="half of it fails", errors=errors))

    found = await status_of_one(stage.engine(), DEGRADED, 2)

    assert (found.sdk, found.reason) == (SDK, "half of it fails")
    assert 60_000 <= found.state_age_ms < 120_000
    assert [(each.message, each.stream) for each in found.errors] == [("older", ""), ("newer", "orders/0")]
    assert 5_000 <= found.errors[0].age_ms < 60_000
    assert found.errors[1].age_ms < found.errors[0].age_ms


async def test_the_status_of_a_sink_says_what_its_connector_reports(stage: Stage) -> None:
    sink, engine = stage.sink(), stage.engine()
    await sink.hello("i", "out", sdk=SDK, capabilities=[77])
    await sink.send(report=report(WAITING, reason="the database restarts", errors=[error("refused")]))

    found = await status_of_one(engine, WAITING, 1)

    [session] = (await engine.status()).sink_sessions
    assert (session.sink, session.connector, session.instance) == ("out", "test", "i")
    assert session.peer
    assert (found.sdk, found.reason, found.errors[0].message) == (SDK, "the database restarts", "refused")


async def test_a_connector_that_reports_nothing_is_one_of_which_nothing_is_known(stage: Stage) -> None:
    await stage.session()
    await stage.sink().hello()

    status = await stage.engine().status()

    assert [session.reported for session in status.sessions] == [admin_pb2.ReportedStatus()]
    assert [session.reported for session in status.sink_sessions] == [admin_pb2.ReportedStatus()]


async def test_a_report_that_is_sent_twice_counts_twice_and_the_last_state_stands(stage: Stage) -> None:
    connector = await stage.session()
    await connector.send(report=report(DEGRADED, reason="why", errors=[error("one")]))
    await connector.send(report=report(DEGRADED, reason="why", errors=[error("one")]))
    await connector.send(report=report(RUNNING))

    found = await status_of_one(stage.engine(), RUNNING, 2)

    assert found.reason == ""


async def test_the_last_hundred_errors_are_kept(stage: Stage) -> None:
    connector = await stage.session()
    for first in (0, 100):
        await connector.send(report=report(errors=[error(f"number {n}") for n in range(first, first + 100)]))
    await connector.send(report=report(WAITING, errors=[error("the last")]))

    found = await status_of_one(stage.engine(), WAITING, 100)

    assert [each.message for each in found.errors] == [*(f"number {n}" for n in range(101, 200)), "the last"]


@pytest.mark.parametrize("letter", ["x", "\N{SNOWMAN}"])
async def test_long_errors_take_a_bounded_amount_of_memory(stage: Stage, letter: str) -> None:
    connector = await stage.session()
    long = letter * (reported.MAX_TEXT_BYTES // len(letter.encode()))
    await connector.send(report=report(errors=[error(long) for _ in range(100)]))
    await connector.send(report=report(WAITING, errors=[error("the last")]))

    found = await status_of_one(stage.engine(), WAITING, reported.KEPT_BYTES // reported.MAX_TEXT_BYTES)

    assert sum(len(each.message.encode()) for each in found.errors) <= reported.KEPT_BYTES
    assert found.errors[-1].message == "the last"


async def test_a_status_has_room_for_the_last_error_of_each_session(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("headrace.gateway.core.status.snapshot"), "STATUS_BYTES", 10)
    for n in range(3):
        connector = await stage.session(f"i{n}")
        await connector.send(report=report(errors=[error("first"), error(f"last of {n}")]))

    def holds(status: admin_pb2.GetStatusResponse) -> bool:
        return all(session.reported.errors for session in status.sessions)

    status = await stage.engine().status_once(holds)

    told = [[each.message for each in session.reported.errors] for session in status.sessions]
    assert told == [["last of 0"], ["last of 1"], ["last of 2"]]


async def test_ages_beyond_all_measure_stay_numbers(stage: Stage) -> None:
    connector = await stage.session()
    await connector.send(report=report(WAITING, state_age_ms=2**64 - 1, errors=[error("old", 2**64 - 1)]))

    found = await status_of_one(stage.engine(), WAITING, 1)

    assert found.state_age_ms == found.errors[0].age_ms == 2**63 - 1


async def test_a_report_before_hello_ends_the_session(stage: Stage) -> None:
    connector, sink = stage.connector(), stage.sink()
    for session in (connector, sink):
        await session.send(report=report())
        code, info = await how_it_ended(session.call)
        assert (code, info.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "MESSAGE_OUT_OF_ORDER")


async def test_a_report_after_goodbye_is_too_late_to_matter(stage: Stage) -> None:
    connector, sink = await stage.session(), stage.sink()
    await sink.hello()
    for session, goodbye in ((connector, source_pb2.Goodbye()), (sink, sink_pb2.SinkGoodbye())):
        await session.send(goodbye=goodbye)
        await too_late(session, report(0, reason=LONG))  # type: ignore[arg-type]

    status = await stage.engine().status_once(lambda status: not status.sessions and not status.sink_sessions)

    assert not status.gateway.rejected_sessions


async def test_a_report_of_a_session_that_was_taken_over_changes_nothing(stage: Stage) -> None:
    older, newer = stage.sink(), stage.sink()
    await older.hello()
    await newer.hello()
    await newer.send(report=report(RUNNING))
    await too_late(older, report(WAITING))

    assert (await status_of_one(stage.engine(), RUNNING, 0)).state == RUNNING


async def test_a_report_needs_the_right_to_the_session() -> None:
    async with serve(tokens=(CLERK,)) as (gateway, address), AsyncExitStack() as stack:
        call = Stage(gateway, address, stack).with_token(SECRET)
        code, info = await how_it_ended(call)
        assert (code, info.reason) == (grpc.StatusCode.PERMISSION_DENIED, "NOT_PERMITTED")
        sink = SinkClient(address, token=SECRET)
        stack.push_async_callback(sink.close)
        await sink.hello(sink="theirs")
        await sink.send(report=report(WAITING))
        engine = Engine(address)
        stack.push_async_callback(engine.close)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await engine.status()
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


NO_ROOM = {"limit": "errors", "maximum": "100", "actual": "101"}


@pytest.mark.parametrize(
    ("wrong", "reason", "metadata"),
    [
        (report(0), "MALFORMED_MESSAGE", {}),  # type: ignore[arg-type]
        (report(77), "MALFORMED_MESSAGE", {}),  # type: ignore[arg-type]
        (report(reason=LONG), "MALFORMED_MESSAGE", {}),
        (report(reason="\N{SNOWMAN}" * 1366), "MALFORMED_MESSAGE", {}),
        (report(errors=[error(LONG)]), "MALFORMED_MESSAGE", {}),
        (report(errors=[error("short", stream="s" * 256)]), "MALFORMED_MESSAGE", {}),
        (report(errors=[error("e")] * 101), "LIST_TOO_LONG", NO_ROOM),
    ],
    ids=["no state", "unknown state", "long reason", "long reason in bytes", "long error", "long stream", "many errors"],
)
@pytest.mark.parametrize("side", ["source", "sink"])
async def test_a_wrong_report_ends_its_own_session(
    stage: Stage, side: str, wrong: connector_pb2.Report, reason: str, metadata: dict[str, str]
) -> None:
    other = await stage.session("other")
    session: Any = stage.sink() if side == "sink" else stage.connector()
    await session.hello()

    await session.send(report=wrong)

    _, info = await how_it_ended(session.call)
    assert (info.reason, dict(info.metadata)) == (reason, metadata)
    await other.open("kept/0")
    await stage.engine().status_once(lambda status: [stream.stream for stream in status.streams] == ["kept/0"])


@pytest.mark.parametrize("field", ["name", "version", "language"])
async def test_an_sdk_with_a_long_text_is_refused(stage: Stage, field: str) -> None:
    connector, sink = stage.connector(), stage.sink()
    sdk = connector_pb2.Sdk(**{field: "x" * 256})
    await connector.send(hello=source_pb2.Hello(protocol_version=1, connector="c", instance="i", sdk=sdk))
    await sink.send(hello=sink_pb2.SinkHello(protocol_version=1, connector="c", instance="i", sink="out", sdk=sdk))
    for session in (connector, sink):
        code, info = await how_it_ended(session.call)
        assert (code, info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED_MESSAGE")


async def test_too_many_capabilities_are_refused(stage: Stage) -> None:
    sink = stage.sink()
    hello = sink_pb2.SinkHello(protocol_version=1, connector="c", instance="i", sink="out", capabilities=[1] * 101)
    await sink.send(hello=hello)

    _, info = await how_it_ended(sink.call)
    assert (info.reason, info.metadata["limit"]) == ("LIST_TOO_LONG", "capabilities")
