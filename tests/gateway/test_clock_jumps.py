"""The clock of the gateway's machine: jumps are found, slow corrections are not, and a clock that is set right has not jumped."""

from collections.abc import Iterator

import pytest
from tests.virtual_clock import VirtualClock

from headrace.contract import clock
from headrace.gateway.core.base.times import REPORTED_S, ClockJumps


@pytest.fixture
def time() -> Iterator[VirtualClock]:
    with clock.use(VirtualClock()) as now:
        yield now


def test_a_jump_is_found_and_over_when_the_clock_is_set_back(time: VirtualClock) -> None:
    jumps = ClockJumps()
    jumps.check()
    assert jumps.jump is None
    time.set(ahead_s=-3600)
    jumps.check()
    assert jumps.jump == (-3_600_000, 0)
    time.advance(2)
    jumps.check()
    assert jumps.jump == (-3_600_000, 2_000)
    time.set(ahead_s=0.3)
    jumps.check()
    assert jumps.jump is None


def test_small_corrections_are_no_jump(time: VirtualClock) -> None:
    jumps = ClockJumps()
    for n in range(20):
        time.set(ahead_s=0.4 * (n + 1))
        jumps.check()
        assert jumps.jump is None


def test_a_jump_that_nobody_takes_back_is_reported_for_a_minute(time: VirtualClock) -> None:
    jumps = ClockJumps()
    time.set(ahead_s=60)
    jumps.check()
    assert jumps.jump is not None
    time.advance(REPORTED_S)
    jumps.check()
    assert jumps.jump is None
