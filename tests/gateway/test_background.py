"""Background work of the gateway lasts: an error is logged, is a fault at the gateway, and keeps nothing else from its turn."""

import asyncio

import pytest
from tests.captured_logs import capture_logs
from tests.gateway.wire import serve

from headrace.contract import clock
from headrace.gateway import Limits, background
from headrace.gateway.core import Gateway, housekeeping, run_housekeeping
from headrace.gateway.core.pipelines.pipeline import Pipeline
from headrace.gateway.own_faults import MAX_COUNT, OwnFaultKind, OwnFaults

DEADLINE_S = 60.0


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that has failed is done again at once."""
    monkeypatch.setattr(background, "FIRST_WAIT_S", 0.0)


async def test_work_that_fails_is_done_again_and_is_a_fault_meanwhile() -> None:
    faults, begun = OwnFaults(), 0
    seen: list[list[str]] = []

    async def work() -> None:
        nonlocal begun
        begun += 1
        seen.append([fault.cause for fault in faults])
        if begun < 4:
            raise ValueError(f"error {begun}")

    with capture_logs() as lines:
        await background.lasting("looking", work, faults)
    assert begun == 4
    assert seen == [[], *([f"looking has failed: ValueError: error {n}"] for n in (1, 2, 3))]
    assert [line["work"] for line in lines if line["log_level"] == "error"] == ["looking"] * 3
    assert not list(faults)


async def test_work_ends_when_it_is_cancelled() -> None:
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(background.lasting("waiting", work, OwnFaults()))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("step", ["pass_round", "pace", "end_leases", "close_paused", "forget_gone", "forget_unused"])
async def test_a_step_of_housekeeping_that_fails_keeps_no_other_from_its_turn(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, taken = Gateway(Limits(query_lease_seconds=1)), set[str]()
    done = asyncio.Event()
    is_broken = True

    def broken(*_: object) -> None:
        if is_broken:
            raise KeyError("gone")

    def last(*_: object) -> None:
        taken.add("forget_silent")
        done.set()

    monkeypatch.setattr(housekeeping, "INTERVAL_S", 0.01)
    monkeypatch.setattr(housekeeping, "forget_silent", last)
    monkeypatch.setattr(housekeeping, step, broken)
    task = asyncio.create_task(run_housekeeping(gateway))
    try:
        async with asyncio.timeout(DEADLINE_S):
            for _ in range(3):
                done.clear()
                await done.wait()
            (fault,) = [fault for fault in gateway.own_faults if "gone" in fault.cause]
            assert fault.kind is OwnFaultKind.GATEWAY_FAILS
            is_broken = False
            while list(gateway.own_faults):  # noqa: ASYNC110 - there is no event to wait on
                await asyncio.sleep(0.01)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert taken


async def test_leases_end_although_another_step_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(housekeeping, "pass_round", broken)
    async with serve(Limits(query_lease_seconds=1)) as (gateway, _):
        pipeline = gateway.pipelines["p"] = Pipeline("p", attached=True, complete=True)
        pipeline.called_at = clock.monotonic() - 3_600
        async with asyncio.timeout(DEADLINE_S):
            while pipeline.attached:  # noqa: ASYNC110 - there is no event to wait on
                await asyncio.sleep(0.01)
    assert pipeline.away_since is not None


def test_faults_are_bounded_and_one_that_changes_keeps_its_age() -> None:
    faults = OwnFaults()
    for number in range(MAX_COUNT + 10):
        faults.note(f"file {number}", OwnFaultKind.CONFIGURATION_INVALID, "bad", "correct it")
    assert len(list(faults)) == MAX_COUNT
    (first,) = [fault for fault in faults if fault.part == "file 0"]
    faults.note("file 0", OwnFaultKind.CONFIGURATION_INVALID, "worse", "correct it")
    (again,) = [fault for fault in faults if fault.part == "file 0"]
    assert (again.cause, again.since) == ("worse", first.since)
    faults.end("file 0", OwnFaultKind.CONFIGURATION_INVALID)
    assert len(list(faults)) == MAX_COUNT - 1
