"""The SDK's reports of a connector."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest
from tests.fake_gateway.server import until
from tests.fake_gateway.sinks import FakeSinkSession, part
from tests.fake_gateway.sources import FakeSession
from tests.gateway.wire import Engine
from tests.gateway.wire import serve as gateway_serving
from tests.sdk.python.sinks import Plain
from tests.sdk.python.test_session import VALUES, AsyncLog, Log

from headrace.protocol.v1 import connector_pb2, source_pb2
from headrace.sdk import ConnectorState, PositionLost, serve
from headrace.sdk.wire import MAX_ERRORS, MAX_TEXT_BYTES, SDK, Reports, _reports

RUNNING = connector_pb2.CONNECTOR_STATE_RUNNING
DEGRADED = connector_pb2.CONNECTOR_STATE_DEGRADED
WAITING = connector_pb2.CONNECTOR_STATE_WAITING
OTHERS = ("backlog", "credit_request", "open_stream", "frame")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports follow one another at once."""
    monkeypatch.setattr(_reports, "INTERVAL_S", 0.0)


async def reported(
    session: FakeSession, state: connector_pb2.ConnectorState.ValueType, errors: int = 0
) -> tuple[connector_pb2.Report, list[connector_pb2.ConnectorError]]:
    """The first Report with a state once a number of errors has come, and these errors."""
    found: list[connector_pb2.ConnectorError] = []
    while True:
        report = (await session.next("report", ignore=OTHERS)).report
        found += report.errors
        if report.state == state and len(found) >= errors:
            return report, found


async def reported_by_sink(session: FakeSinkSession, state: connector_pb2.ConnectorState.ValueType, errors: int = 0) -> list[str]:
    found: list[str] = []
    while True:
        request = await session.inbox.get()
        assert request is not None
        if request.WhichOneof("message") == "report":
            found += [error.message for error in request.report.errors]
            if request.report.state == state and len(found) >= errors:
                return found


async def test_hello_names_the_sdk_and_what_it_can_do(gateway, connect, sink_gateway, attach) -> None:
    connect(Log(VALUES))
    attach(Plain())
    source, sink = await gateway.session(), await sink_gateway.session()

    assert source.hello.sdk == sink.hello.sdk == SDK
    assert (SDK.name, SDK.language) == ("headrace-python", "python")
    assert SDK.version
    assert list(source.hello.capabilities) == [
        source_pb2.CAPABILITY_PACE,
        source_pb2.CAPABILITY_HEARTBEAT,
        source_pb2.CAPABILITY_FRAMES,
        source_pb2.CAPABILITY_CURSORS,
    ]
    assert list(sink.hello.capabilities) == [source_pb2.CAPABILITY_HEARTBEAT]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("log", [Log, AsyncLog])
async def test_a_source_reports_that_it_runs_and_what_it_says_itself(gateway, connect, log) -> None:
    source = log(VALUES, ends=False)
    connect(source)
    session = await gateway.session()
    await reported(session, RUNNING)

    source.report_state(ConnectorState.WAITING, "the broker restarts")
    report, errors = await reported(session, WAITING)
    assert (report.reason, errors) == ("the broker restarts", [])
    source.report_state(ConnectorState.RUNNING)
    report, _ = await reported(session, RUNNING)
    assert report.reason == ""


@pytest.mark.usefixtures("quick")
async def test_a_source_can_report_from_the_thread_that_reads(gateway, connect) -> None:

    class Slow(Log):
        def read(self, partition, position):
            self.report_state(ConnectorState.DEGRADED, "one of two brokers")
            yield from super().read(partition, position)

    connect(Slow(VALUES, ends=False))
    session = await gateway.session()
    await session.open()
    assert (await reported(session, DEGRADED))[0].reason == "one of two brokers"


@pytest.mark.usefixtures("quick")
async def test_what_a_source_reports_holds_in_its_next_session_too(gateway, connect) -> None:
    source = Log(VALUES, ends=False)
    connect(source)
    session = await gateway.session()
    source.report_state(ConnectorState.WAITING, "why")
    await reported(session, WAITING)
    session.close(grpc.StatusCode.UNAVAILABLE, "as the test says")

    report, errors = await reported(await gateway.session(), WAITING, errors=1)

    assert report.reason == "why"
    assert ["as the test says" in error.message and "trying again" in error.message for error in errors] == [True]


@pytest.mark.usefixtures("quick")
async def test_errors_of_a_stream_name_it(gateway, connect) -> None:

    class Pruned(Log):
        def read(self, partition, position):
            raise PositionLost("it was pruned")
            yield

    connect(Pruned(VALUES))
    session = await gateway.session()
    await session.open()

    _, errors = await reported_with(session)
    assert [(error.message, error.stream) for error in errors] == [("position lost: it was pruned", "log/0")]


async def reported_with(session: FakeSession) -> tuple[connector_pb2.Report, list[connector_pb2.ConnectorError]]:
    while True:
        report = (await session.next("report", ignore=(*OTHERS, "position_lost"))).report
        if report.errors:
            return report, list(report.errors)


@pytest.mark.usefixtures("quick")
async def test_a_sink_reports_what_its_methods_raise(sink_gateway, attach) -> None:
    sink = Plain()
    sink.raises["write"] = [OSError("the disk is full")]
    attach(sink)
    session = await sink_gateway.session()
    await reported_by_sink(session, RUNNING)

    id_ = session.start(part(3))
    session.rows(id_, [b"v"])
    session.end(id_, 1)

    assert await reported_by_sink(session, RUNNING, 1) == ["partition 0 of batch 3 of pipeline p: OSError: the disk is full"]


class Sent:
    """Takes the Reports of a connector without a session, when it is allowed to."""

    def __init__(self) -> None:
        self.reports: list[connector_pb2.Report] = []
        self.may = asyncio.Event()

    async def say(self, report: connector_pb2.Report) -> None:
        self.reports.append(report)
        await self.may.wait()


@pytest.fixture
async def sent() -> AsyncIterator[tuple[Reports, Sent]]:
    reports, sent = Reports(), Sent()
    task = asyncio.create_task(reports.send(sent.say))
    await until(lambda: len(sent.reports) == 1)
    yield reports, sent
    task.cancel()


async def test_the_first_report_is_sent_at_once(sent: tuple[Reports, Sent]) -> None:
    [first] = sent[1].reports
    assert (first.state, list(first.errors)) == (connector_pb2.CONNECTOR_STATE_CONNECTING, [])


async def test_a_second_passes_before_the_next_report(sent: tuple[Reports, Sent]) -> None:
    reports, received = sent
    received.may.set()
    began = asyncio.get_running_loop().time()
    reports.set_state(ConnectorState.RUNNING)
    reports.add_error("one")
    reports.set_state(ConnectorState.DEGRADED, "why")
    reports.add_error("two", "orders/0")
    await until(lambda: len(received.reports) == 2)

    assert asyncio.get_running_loop().time() - began >= 0.9
    [_, last] = received.reports
    assert (last.state, last.reason) == (DEGRADED, "why")
    assert [(error.message, error.stream) for error in last.errors] == [("one", ""), ("two", "orders/0")]


async def test_reports_are_heartbeats_when_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_reports, "INTERVAL_S", 0.01)
    monkeypatch.setattr(_reports, "HEARTBEAT_S", 0.05)
    reports, received = Reports(), Sent()
    received.may.set()
    task = asyncio.create_task(reports.send(received.say))
    await until(lambda: len(received.reports) == 3)
    task.cancel()
    assert {report.state for report in received.reports} == {connector_pb2.CONNECTOR_STATE_CONNECTING}


@pytest.mark.usefixtures("quick")
async def test_a_gateway_that_is_slow_gets_the_last_errors_and_delays_nobody(sent: tuple[Reports, Sent]) -> None:
    reports, received = sent
    for n in range(MAX_ERRORS + 50):
        reports.add_error(f"number {n}")
    received.may.set()
    await until(lambda: len(received.reports) == 2)

    assert [error.message for error in received.reports[1].errors] == [f"number {n}" for n in range(50, 150)]


@pytest.mark.usefixtures("quick")
async def test_texts_are_cut_to_what_the_gateway_takes(sent: tuple[Reports, Sent]) -> None:
    reports, received = sent
    reports.add_error("\N{SNOWMAN}" * 5000, "s" * 300)
    reports.add_error("a lone surrogate: \ud800")
    reports.set_state(ConnectorState.WAITING, "x" * 5000)
    received.may.set()
    await until(lambda: len(received.reports) == 2)

    report = received.reports[1]
    assert len(report.reason) == MAX_TEXT_BYTES
    assert report.errors[0].message == "\N{SNOWMAN}" * (MAX_TEXT_BYTES // 3)
    assert report.errors[0].stream == "s" * 255
    assert report.errors[1].message == "a lone surrogate: \\ud800"


def test_a_connector_that_is_not_served_may_report() -> None:
    Log(VALUES).report_state(ConnectorState.WAITING, "nobody listens")


@pytest.mark.parametrize("kind", ["source", "sink"])
async def test_the_gateway_shows_what_a_connector_reports(kind: str) -> None:
    connector = Log(VALUES, ends=False) if kind == "source" else Plain()
    async with gateway_serving() as (_, address):
        engine = Engine(address)
        task = asyncio.create_task(serve(connector, gateway=address))
        connector.report_state(ConnectorState.WAITING, "the system restarts")

        status = await engine.status_once(
            lambda status: any(s.reported.state == WAITING for s in (*status.sessions, *status.sink_sessions))
        )

        [session] = status.sessions if kind == "source" else status.sink_sessions
        assert (session.reported.sdk, session.reported.reason) == (SDK, "the system restarts")
        task.cancel()
        await asyncio.wait({task})
        await engine.close()
