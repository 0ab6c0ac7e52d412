"""The alert rules against series that are recorded from a gateway under faults, one kind of fault after the other."""

from functools import partial
from pathlib import Path

import pytest
from tests.gateway.http_server import get
from tests.gateway.promtool import run
from tests.gateway.recorded_faults import FAULTS, Fault, Made
from tests.gateway.recorder import BEGINS_S, DEGRADED, LASTS_S, RUNNING, STEP_S, WAITING, alerts, expected, recording

from headrace.gateway.core import Kind, Problem
from headrace.protocol.v1.metrics_pb2 import RunMetrics, StepMetrics

CONTRACT = "HeadraceContractBroken"


def test_each_kind_of_fault_is_recorded() -> None:
    """A new kind needs a line in `recorded_faults`."""
    recorded = {kind for fault in FAULTS for kind in fault.kinds}
    assert recorded == {kind for kind in Kind if Problem("", kind, "", 0, "").is_fault}


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.begin.__name__ for fault in FAULTS])
async def test_a_fault_fires_for_its_parts_and_if_it_is_of_the_flow_for_late_data(fault: Fault, tmp_path: Path) -> None:
    async with recording(**fault.recording) as recorded:
        made = Made(recorded)
        if fault.prepare is not None:
            await fault.prepare(made)
        await recorded.watch(BEGINS_S)
        await fault.begin(made)
        await recorded.watch(LASTS_S)
        _, ready = await get(recorded.http, "/readyz")
        parts = {problem["part"]: problem for problem in ready["problems"]}
        assert {problem["kind"] for problem in parts.values()} == fault.kinds
        assert parts[fault.root]["root"] == fault.root
        await fault.end(made)
        await recorded.watch(fault.expected.get("clears_s", 0) + 3 * STEP_S)
        rules = recorded.test(fault.begin.__name__, expected([*parts], is_of_the_flow=fault.is_of_the_flow, **fault.expected))
        run(tmp_path, [rules], every=f"{STEP_S}s")
        await made.close()


async def test_a_fault_that_changes_its_kind_keeps_its_time(tmp_path: Path) -> None:
    """The sink waits for its receiver, is killed, comes back, and works only in part, each for less than any rule waits."""
    async with recording() as recorded:
        await recorded.watch(BEGINS_S)
        kinds = set()
        for number in range(LASTS_S // 60):
            if number % 3 == 0:
                await recorded.sink_is(WAITING, "Cannot connect to host 192.0.2.1:80")
            elif number % 3 == 1:
                await recorded.lose_sink()
            else:
                await recorded.open_sink()
                await recorded.sink_is(DEGRADED, "one of two receivers is away")
            await recorded.watch(60)
            _, ready = await get(recorded.http, "/readyz")
            kinds |= {problem["kind"] for problem in ready["problems"] if problem["part"] == "sink out"}
        assert kinds == {"connector-reports", "sink-away"}
        await recorded.sink_is(RUNNING)
        await recorded.watch(3 * STEP_S)
        parts = ["pipeline p", "sink out"]
        run(tmp_path, [recorded.test("changes", expected(parts))], every=f"{STEP_S}s")


async def test_messages_that_break_a_contract_fire_for_their_step_and_for_a_quarter_of_an_hour(tmp_path: Path) -> None:
    quarter_s = 900
    async with recording() as recorded:

        async def report(violated: int) -> None:
            step = StepMetrics(step="read", received=100, sent=100 - violated, violated=violated)
            await recorded.writer.report_commits(metrics=RunMetrics(steps=[step]))

        recorded.each = partial(report, 0)
        await recorded.watch(BEGINS_S)
        recorded.each = partial(report, 4)
        await recorded.watch(quarter_s + 4 * STEP_S)
        _, ready = await get(recorded.http, "/readyz")
        # The query continues: health has nothing to name.
        assert ready["problems"] == []
        checks = [alerts(BEGINS_S - STEP_S), alerts(BEGINS_S + 2 * STEP_S, CONTRACT), alerts(BEGINS_S + quarter_s + 3 * STEP_S)]
        by_step = f'max by (pipeline, step) (ALERTS{{alertname="{CONTRACT}", alertstate="firing"}})'
        sample = {"labels": '{pipeline="p", step="read"}', "value": 1}
        checks.append({"expr": by_step, "eval_time": f"{BEGINS_S + 600}s", "exp_samples": [sample]})
        run(tmp_path, [recorded.test("contract", checks)], every=f"{STEP_S}s")
