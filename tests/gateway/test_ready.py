"""Readiness through real sessions and calls: each fault is named with its first cause, and is gone when it is repaired."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import grpc.aio
import pytest
from tests.gateway.http_server import get, serve_http
from tests.gateway.sink_wire import SinkClient, Writer, stage_and_vote
from tests.gateway.test_reports import DEGRADED, RUNNING, error, report
from tests.gateway.test_rights import OPERATOR, ORDERS
from tests.gateway.wire import DEADLINE_S, Connector, Engine, numbered, serve

from headrace.contract import clock
from headrace.gateway import Limits, observer
from headrace.gateway.core import Gateway
from headrace.gateway.core.connections import heartbeat
from headrace.protocol.v1 import admin_pb2, sink_pb2, source_pb2
from headrace.protocol.v1.metrics_pb2 import RUN_FAULT_KIND_BATCH_FAILED, RUN_FAULT_KIND_EXECUTORS_LOST, RunFault

LEASE_MS = 3_000
"""Ten times and more what passes between two calls, also where the machine is busy."""
STUCK_AFTER_MS = 2_000
SLOW_AFTER_MS = 2_000
Problems = Mapping[str, Mapping[str, str]]


@dataclass
class Query:
    """A query that reads orders/* as `p`, writes to sink `out`, and calls all the time, as its planner and listener do."""

    address: str
    run: int = 1
    reader: Engine = field(init=False)
    writer: Writer = field(init=False)
    told: RunFault | None = None
    """What its driver reports."""

    async def start(self, committed: Mapping[str, int] = MappingProxyType({})) -> None:
        self.reader = Engine(self.address, run=self.run)
        self.writer = Writer(self.address, f"r{self.run}", readers=["p"])
        await self.reader.attach(dict(committed))
        self._calls = asyncio.create_task(self._call())

    async def _call(self) -> None:
        """Reports until a newer run has taken over."""
        try:
            while True:
                await self.writer.report_commits(fault=self.told)
                await asyncio.sleep(LEASE_MS / 1000 / 50)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.ABORTED:
                raise

    async def kill(self) -> None:
        """Ends it without a word to the gateway."""
        self._calls.cancel()
        with suppress(asyncio.CancelledError):
            await self._calls
        await self.reader.close()
        await self.writer.close()


@dataclass
class Site:
    """A gateway with a source, a sink and a query, all of them well."""

    address: str
    http: str
    source: Connector
    sink: SinkClient
    query: Query

    async def problems(self) -> Problems:
        """The problems, by part."""
        code, document = await get(self.http, "/readyz")
        assert (code, document["status"]) == ((503, "degraded") if document["problems"] else (200, "ready"))
        return {problem["part"]: problem for problem in document["problems"]}

    async def until(self, *parts: str) -> Problems:
        """The problems, once exactly these parts are degraded."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                while (found := await self.problems()).keys() != set(parts):  # noqa: ASYNC110 - there is no event to wait on
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"expected problems of {parts}, and these are: {found}") from None
        return found

    async def until_kind(self, kind: str, *parts: str) -> Problems:
        """The problems, once exactly these parts are degraded, for a cause of this kind."""
        return await self.until_holds(lambda found: all(problem["kind"] == kind for problem in found.values()), *parts)

    async def until_holds(self, condition: Callable[[Problems], bool], *parts: str) -> Problems:
        """The problems, once exactly these parts are degraded, and a condition holds."""
        found: Problems = {}
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not condition(found := await self.until(*parts)):  # noqa: ASYNC110 - there is no event to wait on
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"the condition never held for {found}") from None
        return found


async def new_source(address: str, **hello: Any) -> Connector:
    source = Connector(address)
    await source.hello(**hello)
    await source.open()
    await source.expect("stream_opened")
    return source


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setattr(observer, "_fresh_s", lambda took_s: 0.0)
    async with (
        serve(Limits(query_lease_seconds=LEASE_MS / 1000)) as (gateway, address),
        serve_http(gateway, stuck_after_seconds=STUCK_AFTER_MS / 1000, slow_after_seconds=SLOW_AFTER_MS / 1000) as http,
    ):
        sink, query = SinkClient(address), Query(address)
        await sink.hello()
        await query.start()
        site = Site(address, http, await new_source(address), sink, query)
        await site.source.send(frame=numbered(1, 1, 3))
        await query.reader.plan_until("orders/0", 3)
        await query.reader.plan({"orders/0": 3}, wait_ms=0)
        await site.until()
        yield site
        await site.query.kill()
        await site.source.close()
        await site.sink.close()


async def test_a_killed_connector_of_a_source(site: Site) -> None:
    await site.source.close()
    found = await site.until_kind("connector-away", "connector test-0", "stream orders/0")
    assert found["stream orders/0"]["root"] == "connector test-0"
    assert {problem["kind"] for problem in found.values()} == {"connector-away"}
    site.source = await new_source(site.address)
    await site.until()


@pytest.mark.parametrize("ends", ["detaches", "is killed", "is forgotten"])
async def test_a_lost_position_is_named_until_the_query_is_started_again(site: Site, ends: str) -> None:
    """Spark ends a query that has lost a position, and its run is gone before anybody looks."""
    assert (await site.source.expect("ack")).streams[0].position.sequence == 3
    await site.source.send(position_lost=source_pb2.PositionLost(stream_id=1, earliest_sequence=9, reason="pruned"))
    await site.source.expect("reject")
    with pytest.raises(grpc.aio.AioRpcError):
        await site.query.reader.plan(wait_ms=60_000)
    if ends == "detaches":
        await site.query.reader.detach()
        await site.query.reader.detach()
    await site.query.kill()
    await site.source.open(stream_id=2)
    for _ in range(3):
        found = await site.until_holds(
            lambda found: {problem["kind"] for problem in found.values()} == {"position-lost"}, "stream orders/0", "pipeline p"
        )
        assert "its earliest message is 9 (pruned)" in found["pipeline p"]["cause"]
        await asyncio.sleep(0)
    site.query = Query(site.address, run=2)
    if ends == "is forgotten":
        admin = Engine(site.address)
        await admin.admin.ForgetPipeline(admin_pb2.ForgetPipelineRequest(pipeline="p", force=True), timeout=DEADLINE_S)
        await admin.close()
        assert all(problem["kind"] != "position-lost" for problem in (await site.problems()).values())
    await site.query.start({"orders/0": 8})
    await site.until()


async def test_a_connector_that_is_silent_keeps_its_session(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await site.source.close()
    monkeypatch.setattr(heartbeat, "SILENT_AFTER_S", 3_600.0)
    site.source = await new_source(site.address, capabilities=[source_pb2.CAPABILITY_HEARTBEAT])
    await site.until()
    # The sink, which promises no heartbeats, is as silent.
    monkeypatch.setattr(heartbeat, "SILENT_AFTER_S", 1.0)
    found = await site.until_kind("connector-silent", "connector test-0", "stream orders/0")
    assert found["stream orders/0"]["root"] == "connector test-0"
    assert "has sent nothing for more than" in found["connector test-0"]["cause"]
    monkeypatch.setattr(heartbeat, "SILENT_AFTER_S", 3_600.0)
    await site.source.send(frame=numbered(1, 4, 3))
    await site.query.reader.plan_until("orders/0", 6)
    await site.query.reader.plan({"orders/0": 6}, wait_ms=0)
    await site.until()


async def test_a_sink_that_is_silent_keeps_its_session(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await site.sink.close()
    site.sink = SinkClient(site.address)
    monkeypatch.setattr(heartbeat, "SILENT_AFTER_S", 3_600.0)
    await site.sink.hello(capabilities=[source_pb2.CAPABILITY_HEARTBEAT])
    await site.until()
    monkeypatch.setattr(heartbeat, "SILENT_AFTER_S", 1.0)
    found = await site.until_kind("connector-silent", "connector i of sink out", "sink out", "pipeline p")
    assert {problem["root"] for problem in found.values()} == {"connector i of sink out"}
    monkeypatch.setattr(heartbeat, "SILENT_AFTER_S", 3_600.0)
    await site.sink.send(busy=sink_pb2.SinkBusy())
    await site.until()
    await stage_and_vote(site.sink, site.query.writer, 0)


async def test_a_killed_connector_of_a_sink(site: Site) -> None:
    await site.sink.close()
    found = await site.until("sink out", "pipeline p")
    assert found["pipeline p"]["root"] == "sink out"
    assert found["pipeline p"]["cause"] == "no connector serves it"
    site.sink = SinkClient(site.address)
    await site.sink.hello()
    await site.until()


async def test_a_killed_query(site: Site) -> None:
    await site.query.kill()
    found = await site.until("pipeline p")
    assert found["pipeline p"]["kind"] == "pipeline-away"
    assert found["pipeline p"]["cause"].startswith("its lease has ended: ")
    site.query = Query(site.address, run=2)
    await site.query.start({"orders/0": 3})
    await site.until()


async def test_a_query_that_was_stopped_and_has_not_read_everything(site: Site) -> None:
    await site.source.send(frame=numbered(1, 4, 3))
    await site.query.reader.status_once(lambda status: status.streams[0].received_messages == 6)
    await site.query.reader.detach()
    found = await site.until("pipeline p")
    assert found["pipeline p"]["kind"] == "pipeline-detached"
    await site.query.reader.attach({"orders/0": 6})
    await site.until()


async def test_an_error_that_a_connector_reports(site: Site) -> None:
    errors = [error("connection refused", 900), error("still refused", 10)]
    await site.source.send(report=report(DEGRADED, state_age_ms=1_000, reason="the broker is away", errors=errors))
    found = await site.until("connector test-0", "stream orders/0")
    assert found["stream orders/0"]["root"] == "connector test-0"
    assert {problem["cause"] for problem in found.values()} == {"the broker is away: connection refused"}
    await site.source.close()
    await site.until("connector test-0", "stream orders/0")
    site.source = await new_source(site.address)
    await site.source.send(report=report(RUNNING))
    await site.until()


async def test_an_error_that_the_connector_of_a_sink_reports(site: Site) -> None:
    await site.sink.send(report=report(DEGRADED, reason="the disk is nearly full"))
    found = await site.until("connector i of sink out", "sink out", "pipeline p")
    assert {problem["root"] for problem in found.values()} == {"connector i of sink out"}
    await site.sink.send(report=report(RUNNING))
    await site.until()


async def test_a_sink_that_cannot_write(site: Site) -> None:
    delivery = site.query.writer.deliver(0)
    while (message := await site.sink.receive()).WhichOneof("message") != "end_part":
        pass
    failed = sink_pb2.Failed(part_id=message.end_part.id, reason="no space left on device")
    await site.sink.send(failed=failed)
    with suppress(Exception):
        await delivery
    found = await site.until_kind("sink-fails", "sink out", "pipeline p")
    assert found["pipeline p"]["root"] == "sink out"
    assert found["pipeline p"]["cause"] == "instance i: no space left on device"
    again = site.query.writer.deliver(0, attempt="b")
    await site.sink.take_part()
    await again
    await site.until()


async def test_a_source_that_has_lost_its_position(site: Site) -> None:
    await site.source.close()
    await site.until("connector test-0", "stream orders/0")
    site.source = await new_source(site.address)
    await site.source.send(position_lost=source_pb2.PositionLost(stream_id=1, earliest_sequence=90, reason="pruned"))
    found = await site.until("stream orders/0", "pipeline p")
    assert found["pipeline p"]["root"] == "stream orders/0"
    assert "its earliest message is 90 (pruned)" in found["pipeline p"]["cause"]


async def test_a_sink_that_has_lost_what_it_voted_for(site: Site) -> None:
    await stage_and_vote(site.sink, site.query.writer, 0)
    await site.query.writer.report_commits(0)
    await site.sink.commit()
    await site.sink.close()
    await site.until("sink out", "pipeline p")
    site.sink = SinkClient(site.address)
    await site.sink.hello()
    async with asyncio.timeout(DEADLINE_S):
        while (found := await site.until("sink out", "pipeline p"))["sink out"]["kind"] != "sink-lost":
            pass
    assert found["pipeline p"]["root"] == "sink out"
    await site.query.writer.report_commits(0, accept_lost=True)
    await site.until()


async def test_a_sink_that_does_not_complete_what_it_has_taken(site: Site) -> None:
    delivery = site.query.writer.deliver(0)
    while (message := await site.sink.receive()).WhichOneof("message") != "end_part":
        pass
    found = await site.until_kind("sink-slow", "sink out", "pipeline p")
    assert found["pipeline p"]["root"] == "sink out"
    assert "instance i has not written partition 0 of batch 0" in found["pipeline p"]["cause"]
    await site.sink.send(staged=sink_pb2.Staged(id=message.end_part.id))
    await delivery
    await site.until()


async def test_a_slow_commit_log(site: Site) -> None:
    await site.source.send(frame=numbered(1, 4, 3))
    await site.query.reader.plan_until("orders/0", 6)
    await stage_and_vote(site.sink, site.query.writer, 0)
    found = await site.until_kind("commit-slow", "pipeline p")
    assert "its commit log lacks it" in found["pipeline p"]["cause"]
    await site.query.writer.report_commits(0)
    await site.query.reader.plan({"orders/0": 6}, wait_ms=0)
    await site.until()


async def test_a_run_that_fails_is_well_once_it_has_committed_the_batch(site: Site) -> None:
    fault = RunFault(kind=RUN_FAULT_KIND_BATCH_FAILED, batch=0, message="step sum: ValueError: no price")
    await site.query.writer.report_commits(fault=fault)
    later = RunFault(kind=RUN_FAULT_KIND_BATCH_FAILED, batch=0, message="the query has ended")
    await site.query.writer.report_commits(fault=later)
    await site.query.writer.report_commits()
    found = await site.until_kind("pipeline-fails", "pipeline p")
    assert found["pipeline p"]["cause"] == "batch 0: step sum: ValueError: no price"
    await site.query.writer.report_commits(0)
    await site.until()


async def test_lost_executors_are_a_problem_as_long_as_the_driver_says_so(site: Site) -> None:
    site.query.told = RunFault(kind=RUN_FAULT_KIND_EXECUTORS_LOST, message="executor 1 was lost: it was killed")
    found = await site.until_kind("executor-lost", "pipeline p")
    assert found["pipeline p"]["cause"] == "executor 1 was lost: it was killed"
    site.query.told = None
    await site.until()


@pytest.mark.parametrize(
    "fault", [RunFault(message="of no kind"), RunFault(kind=RUN_FAULT_KIND_BATCH_FAILED, message="x" * 4_097)], ids=str
)
async def test_a_fault_that_is_malformed_or_too_long_is_refused(site: Site, fault: RunFault) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        await site.query.writer.report_commits(fault=fault)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    await site.until()


async def test_the_last_error_of_a_connector_that_has_given_up(site: Site) -> None:
    await site.source.send(report=report(RUNNING, errors=[error("the password is wrong", 0)]))
    await site.until("connector test-0", "stream orders/0")
    await site.source.close()
    found = await site.until_kind("connector-away", "connector test-0", "stream orders/0")
    assert found["stream orders/0"]["cause"] == "its session has ended: the password is wrong"
    site.source = await new_source(site.address)
    await site.until()


async def test_the_last_error_of_a_connector_that_gives_up_before_it_opens_its_streams(site: Site) -> None:
    await site.source.close()
    await site.until_kind("connector-away", "connector test-0", "stream orders/0")
    again = Connector(site.address)
    await again.hello()
    await again.send(goodbye=source_pb2.Goodbye(reason="the password is wrong"))
    await again.ended()
    wanted = "its session has ended: the password is wrong"
    await site.until_holds(lambda found: found["stream orders/0"]["cause"] == wanted, "connector test-0", "stream orders/0")
    await again.close()


class SetForward:
    """The clock of this machine, two hours ahead."""

    monotonic = staticmethod(time.monotonic)

    def now_ns(self) -> int:
        return time.time_ns() + 7_200 * 10**9


async def test_a_clock_that_jumps_and_is_set_right(site: Site) -> None:
    with clock.use(SetForward()):
        found = await site.until_kind("clock-jumped", "gateway")
    assert found["gateway"]["cause"].startswith("the clock of its machine was set forward by 7200.")
    await site.until()


async def test_a_micro_batch_that_is_stuck(site: Site) -> None:
    await site.source.send(frame=numbered(1, 4, 3))
    await site.query.reader.plan_until("orders/0", 6)
    await site.until_kind("batch-stuck", "pipeline p")
    await site.query.reader.plan({"orders/0": 6}, wait_ms=0)
    await site.until()


async def test_a_stream_that_no_query_reads(site: Site) -> None:
    other = Connector(site.address)
    await other.hello("other")
    await other.open("payments/0")
    found = await site.until("stream payments/0")
    assert found["stream payments/0"]["cause"] == "no query reads it"
    await other.close()
    await site.until()


async def test_only_those_who_may_read_the_status_learn_what_is_wrong() -> None:
    gateway = Gateway(Limits())
    gateway.draining = True
    async with serve_http(gateway, [OPERATOR, ORDERS]) as address:
        for caller in (None, "nobody", "orders"):
            assert await get(address, "/readyz", caller) == (503, {"status": "degraded"})
        code, document = await get(address, "/readyz", "operator")
        assert (code, document["problems"][0]["cause"]) == (503, "the gateway is stopping")


async def test_many_probes_cost_one_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0
    snapshot = observer.snapshot

    async def counted(gateway: Gateway) -> Any:
        nonlocal taken
        taken += 1
        return await snapshot(gateway)

    monkeypatch.setattr(observer, "snapshot", counted)
    monkeypatch.setattr(observer, "_fresh_s", lambda took_s: 3_600.0)
    async with serve_http(Gateway(Limits())) as address:
        await asyncio.gather(*(get(address, "/readyz") for _ in range(50)))
    assert taken == 1
