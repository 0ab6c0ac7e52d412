"""What happened: which events there are, in which order, how many are kept, and that texts of callers do no harm."""

from collections.abc import Iterator

import grpc
import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.http_server import get, serve_http
from tests.gateway.sink_wire import SinkClient
from tests.gateway.test_supervising import Supervisor
from tests.gateway.wire import DEADLINE_S, Connector, Engine, serve, until_gone
from tests.virtual_clock import VirtualClock

from headrace.contract import clock
from headrace.contract.limits import MAX_EVENTS, MAX_NAME_BYTES
from headrace.gateway import Http
from headrace.gateway.core.state.event_log import MAX_OF_KIND, MAX_TEXT, EventKind, EventLog
from headrace.gateway.core.status.problem import MAX_AT_ONCE, FaultWatch, Kind, Problem
from headrace.gateway.observer import Observer, Recording
from headrace.protocol.v1 import admin_pb2 as pb


@pytest.fixture
def time() -> Iterator[VirtualClock]:
    with clock.use(VirtualClock()) as now:
        yield now


def problem(part: str, kind: Kind = Kind.SINK_AWAY, root: str = "") -> Problem:
    return Problem(part, kind, "no connector serves it", 0, "start its connector", root)


def noted(log: EventLog) -> list[tuple[str, str]]:
    return [(event.kind.value, event.part) for event in log.events()]


async def test_what_comes_and_goes_is_an_event() -> None:
    async with serve() as (_, address):
        source, reader, sink = Connector(address), Engine(address, run=3), SinkClient(address)
        await source.hello(instance="orders-0")
        await reader.attach()
        await sink.hello()
        supervisor = await Supervisor(address).register("orders")
        admin = reader.admin
        restart = admin.RestartConnector(pb.RestartConnectorRequest(connector="orders"), timeout=DEADLINE_S)
        order = await supervisor.order()
        await supervisor.answer(order.id, restarted=pb.RestartedConnector(pid=2, duration_ms=5))
        await restart
        await reader.detach()
        await source.close()
        await until_gone(address, "orders-0")
        events = (await admin.ListEvents(pb.ListEventsRequest(), timeout=DEADLINE_S)).events
        found = [(event.kind, event.part) for event in events]
        assert found == [
            ("attached", "connector orders-0"),
            ("attached", "pipeline p"),
            ("attached", "connector i of sink out"),
            ("attached", "deployment deploy.toml"),
            ("restarted", "connector orders"),
            ("detached", "pipeline p"),
            ("detached", "connector orders-0"),
        ]
        assert [event.number for event in events] == [1, 2, 3, 4, 5, 6, 7]
        later = (await admin.ListEvents(pb.ListEventsRequest(after=5, limit=1), timeout=DEADLINE_S)).events
        assert [event.number for event in later] == [7]
        for closed in (supervisor, sink, reader):
            await closed.close()


async def test_a_process_that_its_supervisor_starts_again_is_an_event() -> None:
    def processes(restarts: int, reason: str = "") -> pb.SupervisedProcesses:
        kind, state = pb.PROCESS_KIND_CONNECTOR, pb.PROCESS_STATE_KIND_STARTS
        one = pb.ProcessState(name="ledger", kind=kind, state=state, restarts=restarts, reason=reason)
        return pb.SupervisedProcesses(processes=[one])

    async with serve() as (gateway, address):
        supervisor = Supervisor(address)
        # How often before it registered is no news.
        hello = pb.SuperviseHello(deployment="shop", run="r1", connectors=pb.SupervisedConnectors(), processes=processes(7))
        await supervisor.send(hello=hello)
        await supervisor.read()
        for restarts in (7, 8, 8, 10):
            await supervisor.send(processes=processes(restarts, "ended with exit code 1"))
        engine = Engine(address)
        await engine.status_once(lambda status: status.deployments[0].processes[0].restarts == 10)
        restarted = [event for event in gateway.event_log.events() if event.kind is EventKind.RESTARTED]
        assert [event.text for event in restarted] == [
            f"by its supervisor, {times} times by now: ended with exit code 1" for times in (8, 10)
        ]
        assert {event.part for event in restarted} == {"process ledger of shop"}
        await engine.close()
        await supervisor.close()


async def test_a_session_that_breaks_a_rule_is_an_event() -> None:
    async with serve() as (gateway, address):
        source = Connector(address)
        await source.hello(instance="orders-0")
        await source.open("not a name")
        await source.ended()
        (rejected,) = [event for event in gateway.event_log.events() if event.kind is EventKind.REJECTED]
        assert rejected.part == "connector orders-0"
        assert rejected.text.startswith("INVALID_ARGUMENT: ")
        await source.close()


async def test_a_run_that_attaches_again_is_no_event() -> None:
    async with serve() as (gateway, address):
        first, second = Engine(address, run=1), Engine(address, run=2)
        for engine in (first, first, second):
            await engine.attach()
        assert noted(gateway.event_log) == [("attached", "pipeline p")] * 2
        for engine in (first, second):
            await engine.close()


async def test_a_fault_begins_and_ends_once(time: VirtualClock) -> None:
    log = EventLog()
    watch = FaultWatch(log)
    consequence = problem("pipeline p", root="sink out")
    for problems in ([], [problem("sink out"), consequence], [consequence, problem("sink out")]):
        watch.look(problems)
        time.advance(5)
    watch.look([])
    assert noted(log) == [("fault-began", "sink out"), ("fault-ended", "sink out")]
    began, ended = log.events()
    assert began.text == "sink-away: no connector serves it"
    assert ended.text == "sink-away, after 10 s"


async def test_what_is_paused_is_no_fault() -> None:
    log = EventLog()
    FaultWatch(log).look([problem("stream orders/0", Kind.PAUSED)])
    assert not log.events()


async def test_many_faults_at_once_are_counted() -> None:
    log = EventLog()
    FaultWatch(log).look([problem(f"stream orders/{number}", Kind.NOT_READ) for number in range(500)])
    events = log.events()
    assert len(events) == MAX_AT_ONCE + 1
    assert (events[-1].part, events[-1].text) == ("gateway", "not-read: 480 more parts at the same time")


async def test_faults_are_found_by_the_recording() -> None:
    async with serve() as (gateway, address):
        recording = Recording(gateway, Observer(gateway, Http()))
        source = Connector(address)
        await source.hello()
        await source.open("payroll/0")
        engine = Engine(address)
        await engine.status_once(lambda status: any(problem.kind == "not-read" for problem in status.problems))
        await recording.take()
        began = [(event.kind.value, event.part) for event in gateway.event_log.events()][-1]
        assert began == ("fault-began", "stream payroll/0")
        await engine.close()
        await source.close()


@given(st.lists(st.tuples(st.sampled_from(EventKind), st.text(max_size=20)), max_size=60), st.integers(1, 40), st.integers(0, 60))
def test_events_are_the_latest_ones_in_order(added: list[tuple[EventKind, str]], limit: int, after: int) -> None:
    log = EventLog()
    for kind, part in added:
        log.add(kind, part)
    numbers = [number for number in range(1, len(added) + 1) if number > after]
    found = log.events(limit, after)
    assert [event.number for event in found] == numbers[-limit:]
    assert [event.kind for event in found] == [added[event.number - 1][0] for event in found]
    assert all(event.part.isprintable() for event in found)


def test_a_kind_does_not_push_out_another() -> None:
    log = EventLog()
    log.add(EventKind.FAULT_BEGAN, "sink out")
    for _ in range(10 * MAX_EVENTS):
        log.add(EventKind.DETACHED, "connector flaps", "x" * 10 * MAX_TEXT)
    events = log.events()
    assert len(events) == MAX_OF_KIND + 1 <= MAX_EVENTS
    assert events[0].part == "sink out"
    assert len(events[-1].text) == MAX_TEXT
    assert MAX_NAME_BYTES + len("connector ") < MAX_TEXT


def test_a_clock_that_is_set_moves_all_events(time: VirtualClock) -> None:
    log = EventLog()
    log.add(EventKind.ATTACHED, "pipeline p")
    time.advance(5)
    time.set(ahead_s=3_600)
    (event,) = log.events()
    assert event.at == pytest.approx(clock.now() - 5)


@pytest.mark.parametrize("limit", [MAX_EVENTS + 1, 2**32 - 1])
async def test_more_than_there_can_be_is_refused(limit: int) -> None:
    async with serve() as (_, address):
        engine = Engine(address)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await engine.admin.ListEvents(pb.ListEventsRequest(limit=limit), timeout=DEADLINE_S)
        assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert str(MAX_EVENTS) in (error.value.details() or "")
        await engine.close()


async def test_the_api_has_them_too() -> None:
    async with serve() as (gateway, _), serve_http(gateway) as http:
        gateway.event_log.add(EventKind.ATTACHED, "pipeline p", "run 1")
        code, document = await get(http, "/api/v1/event-log?limit=10")
        assert code == 200
        (event,) = document["events"]
        assert (event["number"], event["kind"], event["part"], event["text"]) == (1, "attached", "pipeline p", "run 1")
        assert (await get(http, "/api/v1/event-log?after=1"))[1]["events"] == []
        for query in ("limit=0", f"limit={MAX_EVENTS + 1}", "after=-1", "after=x"):
            assert (await get(http, f"/api/v1/event-log?{query}"))[0] == 400
