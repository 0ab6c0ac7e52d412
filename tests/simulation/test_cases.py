"""Schedules that once failed hold: what the simulation has found."""

from pathlib import Path

import pytest

from headrace.simulation.schedule import Schedule
from headrace.simulation.simulating import simulate

CASES = sorted(Path(__file__).with_name("cases").glob("*.json"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_a_schedule_that_once_failed_holds(case: Path) -> None:
    assert simulate(Schedule.from_json(case.read_text())).violations == ()


def test_there_are_cases() -> None:
    assert CASES
