"""The clock of micro-batches never runs backwards, and never stands while a run plans."""

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine.source.present import PresentClock

PROPERTY = settings(max_examples=100, derandomize=True, database=None, deadline=None)
YEAR = 365 * 86_400 * 1_000_000


class Machine:
    """A clock that somebody sets, and the time that really passes, in microseconds."""

    def __init__(self) -> None:
        self.passed, self.wrong = 1_000 * YEAR // 20, 0

    def clock(self) -> PresentClock:
        return PresentClock({}, lambda: (self.passed + self.wrong) * 1000, lambda: self.passed * 1000)


@PROPERTY
@given(
    steps=st.lists(
        st.tuples(st.integers(1, YEAR), st.none() | st.integers(-10 * YEAR, 10 * YEAR), st.booleans()), min_size=1, max_size=20
    )
)
def test_each_micro_batch_is_as_much_later_as_has_passed_unless_the_clock_is_further(
    steps: list[tuple[int, int | None, bool]],
) -> None:
    machine, before = Machine(), None
    clock, is_first = machine.clock(), True
    for passed, wrong, restarts in steps:
        if restarts:
            clock, is_first = machine.clock(), True
        machine.passed += passed
        machine.wrong = machine.wrong if wrong is None else wrong
        now, wall = clock.now(before)
        assert wall == machine.passed + machine.wrong
        assert now == (wall if before is None or wall >= before else before + (0 if is_first else passed))
        before, is_first = now, False


def test_that_the_clock_is_behind_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    clock = machine.clock()
    ahead = clock.now(None)[0] + 999_999
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            ahead, _wall = clock.now(ahead)
        assert not caplog.records, "clocks of machines differ a little"
        ahead += YEAR
        for _ in range(3):
            ahead, _wall = clock.now(ahead)
    (record,) = caplog.records
    assert record.getMessage().startswith("the machine's clock is 365 days, 0:00:00.999999 behind the time at which")
