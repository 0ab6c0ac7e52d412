"""The alert rules against the series of every fault: what fires, for which part, and that it ends."""

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.gateway.faulty_sites import FAULTS, Fault, driver_killed, site
from tests.gateway.promtool import firing, run

from headrace.gateway.core import problems
from headrace.gateway.observer import Degraded, Observation
from headrace.gateway.telemetry.readings import data_age, degraded
from headrace.protocol.v1 import admin_pb2 as pb

BEGINS, ENDS, MINUTES = 5, 18, 24
"""When faults begin and end, and how long each site is watched, in minutes."""
ALL = (*FAULTS, driver_killed(is_deployed=True), driver_killed(is_deployed=False))
Series = Mapping[str, Sequence[float | None]]
State = Callable[[int], pb.GetStatusResponse]


def series_of(state: State) -> Series:
    """The series of a gateway that is scraped once a minute, by name and labels."""
    since, found = Degraded(), dict[str, list[float | None]]()
    for minute in range(MINUTES):
        status = state(minute)
        listed = problems(status, 900_000, 5_000)
        observed = Observation(status, listed, datetime.now(UTC), (), since.update(listed, minute * 60.0))
        values = {f"part={json.dumps(labels['part'])}": value for value, labels in degraded(observed)}
        ((age, _),) = data_age(observed)
        for name in (*found, *values):
            found.setdefault(name, [None] * minute)
        for name, known in found.items():
            if name != "data_age":
                known.append(values.get(name))
        found.setdefault("data_age", []).append(age)
    return found


def of(fault: Fault, *, is_deployed: bool = False) -> State:
    """A site that is well, then has a fault, then is well again."""
    well = site(2, 2, 2, is_deployed=is_deployed)
    ill = deepcopy(well)
    fault.inject(ill)
    return lambda minute: ill if BEGINS <= minute < ENDS else well


def name_of(series: str) -> str:
    metric, labels = ("data_age_seconds", "") if series == "data_age" else ("degraded_seconds", f", {series}")
    return f'headrace_{metric}{{job="headrace", instance="g"{labels}}}'


def rule_test(name: str, series: Series, expected: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": name,
        "interval": "1m",
        "input_series": [
            {"series": 'headrace_gateway_info{job="headrace", instance="g"}', "values": f"1x{MINUTES}"},
            *(
                {"series": name_of(one), "values": " ".join("_" if value is None else f"{value:g}" for value in values)}
                for one, values in series.items()
            ),
        ],
        "promql_expr_test": list(expected),
    }


def test_every_fault_fires_for_its_parts_and_late_data_for_every_fault_of_the_flow(tmp_path: Path) -> None:
    tests = []
    for fault in ALL:
        state = of(fault, is_deployed=fault is ALL[-2])
        degraded_parts = [one.part for one in problems(state(BEGINS), 900_000, 5_000) if one.is_fault]
        assert fault.root in degraded_parts
        expected = [
            firing(BEGINS - 1, "HeadraceDegraded", ()),
            firing(BEGINS - 1, "HeadraceDataLate", ()),
            firing(ENDS - 1, "HeadraceDegraded", degraded_parts),
            firing(ENDS - 1, "HeadraceDataLate", [""] if fault.is_of_the_flow else ()),
            firing(MINUTES - 1, "HeadraceDegraded", ()),
            firing(MINUTES - 1, "HeadraceDataLate", ()),
        ]
        tests.append(rule_test(fault.name, series_of(state), expected))
    run(tmp_path, tests)


def test_a_fault_that_changes_its_kind_every_minute_fires_as_soon_as_one_that_does_not(tmp_path: Path) -> None:
    """A broker is stopped, its connector is killed, starts and finds no broker: three kinds, one part."""
    kinds = [fault for fault in FAULTS if fault.name in ("broker_stopped", "connector_killed", "network_cut")]
    states = [of(fault) for fault in kinds]

    def state(minute: int) -> pb.GetStatusResponse:
        return states[minute % len(states)](minute)

    assert {problems(state(minute), 900_000, 5_000)[0].kind for minute in range(BEGINS, ENDS)} == {one.kind for one in kinds}
    streams = ["stream source0/0", "stream source0/1"]
    parts = ["connector from0", *streams]
    expected = [firing(BEGINS + 3, "HeadraceDegraded", parts), firing(BEGINS + 6, "HeadraceDataLate", [""])]
    run(tmp_path, [rule_test("changing", series_of(state), expected)])


def test_a_pause_fires_nothing(tmp_path: Path) -> None:
    paused = site(1, 1, 1, is_deployed=False)
    paused.pipelines[0].paused.CopyFrom(pb.PauseStatus(part="pipeline totals0", by="me", age_ms=3_600_000))
    expected = [firing(MINUTES - 1, alert, ()) for alert in ("HeadraceDegraded", "HeadraceDataLate")]
    run(tmp_path, [rule_test("paused", series_of(lambda minute: paused), expected)])
