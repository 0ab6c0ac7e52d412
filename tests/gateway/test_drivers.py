"""What the gateway knows of drivers: one that is frozen, two on one checkpoint, and where their faults began."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway import test_ready
from tests.gateway.http_server import get
from tests.gateway.sink_wire import Writer
from tests.gateway.test_ready import Site
from tests.gateway.wire import DEADLINE_S, Engine, numbered
from tests.virtual_clock import VirtualClock

from headrace.contract import clock
from headrace.gateway.core.pipelines import drivers
from headrace.gateway.core.pipelines.drivers import MAX_RIVALS, RIVAL_S, SILENT_AFTER_S, Driver, Drivers
from headrace.gateway.core.pipelines.run_faults import Fault, after_report
from headrace.protocol.v1 import admin_pb2
from headrace.protocol.v1 import metrics_pb2 as pb

site = test_ready.site
FAILED = pb.RUN_FAULT_KIND_BATCH_FAILED


async def test_a_driver_that_is_frozen_is_named_although_its_planner_calls(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.query._calls.cancel()
    monkeypatch.setattr(drivers, "SILENT_AFTER_S", 1.0)

    async def plan() -> None:
        while True:
            await site.query.reader.plan({"orders/0": 3}, wait_ms=100)

    planner = asyncio.create_task(plan())
    found = await site.until_kind("pipeline-silent", "pipeline p")
    assert found["pipeline p"]["cause"].startswith("its driver no longer reports")
    assert "restart it, which loses nothing" in found["pipeline p"]["remedy"]
    assert "forget" not in found["pipeline p"]["remedy"]
    _, metrics = await get(site.http, "/metrics")
    assert 'headrace_problems{kind="pipeline-silent"} 1.0' in metrics
    site.query._calls = asyncio.create_task(site.query._call())
    await site.until()
    planner.cancel()
    await asyncio.gather(planner, return_exceptions=True)


@asynccontextmanager
async def calling(planner: Engine, *beating: str) -> AsyncIterator[None]:
    """What other processes of a query call while its driver is frozen, and drivers that are not."""

    async def call() -> None:
        while True:
            await planner.renew()
            for driver in beating:
                await planner.beat(driver)
            await asyncio.sleep(0.05)

    calls = asyncio.create_task(call())
    try:
        yield
    finally:
        calls.cancel()
        with suppress(asyncio.CancelledError):
            await calls


async def test_a_frozen_driver_of_a_query_without_a_sink_is_named(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "SILENT_AFTER_S", 1.0)

    async def until(kind: str) -> str:
        """The cause, once the part is degraded for one of this kind, or once it is well."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                found = (await site.problems()).get("pipeline plain", {"kind": "", "cause": ""})
                if found["kind"] == kind:
                    return found["cause"]

    first, second = (Engine(site.address, "plain", run=run, driver=f"d{run}") for run in (1, 2))
    await first.attach({"orders/0": 3})
    await site.source.send(frame=numbered(1, 4, 3))
    await site.query.reader.plan_until("orders/0", 6)
    await site.query.reader.plan({"orders/0": 6}, wait_ms=0)
    # It is frozen before its first heartbeat.
    async with calling(first, "d2"):
        assert (await until("pipeline-silent")).startswith("its driver no longer reports")
        _, metrics = await get(site.http, "/metrics")
        assert 'kind="pipeline-silent"' in metrics
        asked = admin_pb2.LocateMessageRequest(stream="orders/0", sequence=4)
        located = await first.admin.LocateMessage(asked, timeout=DEADLINE_S)
        assert {reader.pipeline: reader.problem.kind for reader in located.readers}["plain"] == "pipeline-silent"
    async with calling(first, "d1"):
        await first.plan({"orders/0": 6}, wait_ms=0)
        await until("")
    # The next run has another driver. The driver of the first one continues, and does not stand in for it.
    await second.attach({"orders/0": 6})
    async with calling(second, "d1"):
        await until("pipeline-silent")
    async with calling(second, "d1", "d2"):
        await until("")
    for planner in (first, second):
        await planner.close()


async def test_of_a_driver_that_sends_no_heartbeats_none_is_missed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "SILENT_AFTER_S", 1.0)
    older, newer = Engine(site.address, "older"), Engine(site.address, "newer", driver="d")
    for planner in (older, newer):
        await planner.attach({"orders/0": 3})
    async with calling(older), calling(newer):
        status = await newer.status_once(
            lambda status: any(one.pipeline == "newer" and one.HasField("silent_ms") for one in status.pipelines)
        )
    assert not any(one.HasField("silent_ms") for one in status.pipelines if one.pipeline == "older")
    for planner in (older, newer):
        await planner.close()


async def test_a_heartbeat_names_its_driver(site: Site) -> None:
    for driver in ("", "d" * 256):
        with pytest.raises(grpc.RpcError) as refused:
            await site.query.reader.beat(driver)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    await site.query.reader.beat("unknown")


async def test_a_driver_that_finds_another_one_on_its_checkpoint_has_it_named(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "RIVAL_S", 3.0)
    older = Writer(site.address, "r0", readers=["p"], number=1)
    await older.report_commits(replaced=True)
    found = await site.until_kind("second-driver", "pipeline p")
    assert "run 1 (r0) calls from ipv4:127.0.0.1:" in found["pipeline p"]["cause"]
    assert found["pipeline p"]["remedy"].startswith("stop one of the two drivers")
    await older.close()
    await site.until()


@pytest.mark.parametrize("run", [1, 2])
async def test_a_query_that_another_driver_has_ended_is_a_rival_however_late_the_gateway_learns_of_it(
    site: Site, run: int
) -> None:
    """The query of the older run may end in a micro-batch, and report that before the newer one is known, or after it."""
    told = pb.RunFault(kind=FAILED, batch=0, message="another driver has started", origin=pb.RUN_FAULT_ORIGIN_OTHER_RUN)
    if run == 1:
        await site.query.writer.report_commits(fault=told, stopped=True)
    else:
        newer = Writer(site.address, "r2", readers=["p"])
        await newer.report_commits()
        with pytest.raises(grpc.RpcError):
            await site.query.writer.report_commits(fault=told, stopped=True)
        await newer.close()
    assert (await site.query.reader.status()).pipelines[0].HasField("rival")
    assert not (await site.query.reader.status()).pipelines[0].HasField("fault")


async def test_a_report_of_a_replaced_run_changes_nothing_else(site: Site) -> None:
    before = (await site.query.reader.status()).sinks
    older = Writer(site.address, "r0", readers=["p"], number=1)
    assert await older.report_commits(7, replaced=True, accept_older=True) == 0
    assert [sink.committed for sink in (await site.query.reader.status()).sinks] == [sink.committed for sink in before]
    await site.query.writer.report_commits()
    await older.close()


async def test_a_query_without_a_sink_that_plans_after_it_was_replaced_is_a_rival(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = Engine(site.address, run=2)
    await newer.attach({"orders/0": 3})
    with pytest.raises(grpc.RpcError):
        await site.query.reader.plan({"orders/0": 3}, wait_ms=0)
    await site.until_kind("second-driver", "pipeline p")
    await newer.close()


@pytest.mark.parametrize("reports_more", [False, True])
async def test_a_query_that_was_stopped_is_no_rival_of_the_next_one(site: Site, *, reports_more: bool) -> None:
    site.query._calls.cancel()
    await asyncio.gather(site.query._calls, return_exceptions=True)
    newer = Writer(site.address, "r2", readers=["p"])
    await newer.report_commits()
    if reports_more:
        with pytest.raises(grpc.RpcError):
            await site.query.writer.report_commits()
        assert (await site.query.reader.status()).pipelines[0].HasField("rival")
    with pytest.raises(grpc.RpcError):
        await site.query.writer.report_commits(stopped=True)
    assert not (await site.query.reader.status()).pipelines[0].HasField("rival")
    await newer.close()


async def test_a_sink_that_has_failed_a_query_is_named_and_not_the_application(site: Site) -> None:
    site.query.told = pb.RunFault(
        kind=FAILED, batch=0, message="SinkFailed: sink out cannot write batch 0", origin=pb.RUN_FAULT_ORIGIN_SINK, about="out"
    )
    found = await site.until_kind("sink-fails", "pipeline p", "sink out")
    assert {problem["root"] for problem in found.values()} == {"sink out"}
    assert "correct" not in found["pipeline p"]["remedy"]
    site.query.told = None
    await site.query.writer.report_commits(0)
    await site.until()


async def test_a_later_run_that_fails_for_another_reason_tells_why(site: Site) -> None:
    first = pb.RunFault(kind=FAILED, batch=0, message="ValueError: no price", origin=pb.RUN_FAULT_ORIGIN_FUNCTION)
    await site.query.writer.report_commits(fault=first)
    await site.until_kind("pipeline-fails", "pipeline p")
    await site.query.kill()
    site.query = test_ready.Query(site.address, run=2)
    full = "No space left on device: /data/checkpoint has no room left"
    site.query.told = pb.RunFault(
        kind=FAILED, batch=0, message=full, origin=pb.RUN_FAULT_ORIGIN_STORAGE, about="/data/checkpoint"
    )
    await site.query.start({"orders/0": 3})
    found = await site.until_holds(lambda found: full in found["pipeline p"]["cause"], "pipeline p")
    assert found["pipeline p"]["remedy"].startswith("make room on the storage")
    site.query.told = None
    await site.query.writer.report_commits(0)
    await site.until()


# The rules


def test_a_driver_is_silent_by_rounds_and_no_longer_once_it_reports() -> None:
    with clock.use(VirtualClock()) as now:
        driver = Driver()
        now.advance(3_600)
        assert driver.silent_ms is None, "the gateway was held up itself"
        for _ in range(int(SILENT_AFTER_S)):
            driver.pass_round(1.0)
        assert driver.silent_ms == 3_600_000
        driver.heard("here")
        assert driver.silent_ms is None


def test_a_rival_is_known_from_its_first_call_on_as_long_as_it_calls_again() -> None:
    with clock.use(VirtualClock()) as now:
        known = Drivers()
        for _ in range(5):
            known.note_rival(["p"], "run 1", "a", "b")
            now.advance(RIVAL_S / 2)
        told = known.rival("p")
        assert told is not None
        assert told.age_ms == 5 * RIVAL_S / 2 * 1_000
        now.advance(RIVAL_S)
        assert known.rival("p") is None
        known.note_rival((f"p{number}" for number in range(MAX_RIVALS + 5)), "run 1", "a", "")
        assert known.rival("p0") is None
        assert known.rival(f"p{MAX_RIVALS + 4}") is not None


FAULTS = st.builds(
    pb.RunFault,
    kind=st.sampled_from([FAILED, pb.RUN_FAULT_KIND_EXECUTORS_LOST, pb.RUN_FAULT_KIND_FUNCTION_RUNS]),
    batch=st.integers(0, 2),
    message=st.sampled_from("ab"),
)


@given(st.lists(st.tuples(st.integers(1, 3), st.none() | FAULTS, st.integers(-1, 2)), max_size=12))
def test_what_is_named_was_reported_is_not_committed_and_is_of_the_last_run_that_has_told_one(
    reports: list[tuple[int, pb.RunFault | None, int]],
) -> None:
    known: Fault | None = None
    run = committed = 0
    last: tuple[int, pb.RunFault] | None = None
    for later, told, more in reports:
        # Runs and commits only grow.
        run, committed = max(run, later), max(committed, more)
        fault = None if told is None else Fault.of(told, f"r{run}")
        known = after_report(known, fault, committed)
        if told is not None:
            last = run, told
        if known is None:
            assert told is None
            continue
        if told is None:
            assert known.told.kind == FAILED, "what hinders for a time is over once the driver no longer reports it"
            assert known.told.batch > committed
        assert last is not None
        if last[1].kind == FAILED and last[1].batch > committed and known.run != f"r{last[0]}":
            assert known.told.message == last[1].message, "an earlier run is named only if it tells the same"
