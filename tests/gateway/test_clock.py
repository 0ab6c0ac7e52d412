"""The clock of the gateway's machine: jumps are found, slow corrections are not, and a clock that is set right has not jumped."""

import time

import pytest

from headrace.gateway.core.clock import REPORTED_S, Clock


class TimeOfDay:
    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


def test_a_jump_is_found_and_over_when_the_clock_is_set_back() -> None:
    day = TimeOfDay()
    clock = Clock(day)
    clock.check()
    assert clock.jump is None
    day.ahead_s = -3600
    clock.check()
    assert clock.jump is not None
    assert clock.jump[0] == pytest.approx(-3_600_000, abs=500)
    clock.check()
    assert clock.jump is not None
    day.ahead_s = 0.3
    clock.check()
    assert clock.jump is None


def test_small_corrections_are_no_jump() -> None:
    day = TimeOfDay()
    clock = Clock(day)
    for _ in range(20):
        day.ahead_s += 0.4
        clock.check()
        assert clock.jump is None


def test_a_jump_that_nobody_takes_back_is_reported_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    day = TimeOfDay()
    clock = Clock(day)
    day.ahead_s = 60
    clock.check()
    assert clock.jump is not None
    now = time.monotonic() + REPORTED_S
    monkeypatch.setattr(time, "monotonic", lambda: now)
    clock.check()
    assert clock.jump is None
