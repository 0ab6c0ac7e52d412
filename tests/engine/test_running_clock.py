"""The clock of quiet streams counts only time in which nothing could have been missed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.source.running_clock import MAX_GAP_S, RunningClock


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=30), st.sampled_from([0.0, 3.0, 30.0]))
def test_it_counts_the_time_between_two_looks_at_which_everything_was_there(
    looks: list[tuple[int, bool]], interval_s: float
) -> None:
    now = [0.0]
    clock, expected, before = RunningClock(5.0, interval_s, lambda: now[0]), 0.0, False
    for passed, is_complete in looks:
        now[0] += passed
        if before and is_complete:
            expected += min(passed, max(MAX_GAP_S, 2 * interval_s))
        before = is_complete
        clock.look(is_complete=is_complete)
        assert clock.is_due == (expected >= 5)
    assert clock.take() == expected * 1_000_000
    assert (clock.take(), clock.is_due) == (0, False)


@pytest.mark.parametrize("tick_s", [None, 1.0])
def test_a_batch_is_due_only_where_something_needs_the_clock(tick_s: float | None) -> None:
    now = [0.0]
    clock = RunningClock(tick_s, 0, lambda: now[0])
    for _ in range(2):
        clock.look(is_complete=True)
        now[0] += 9
    assert (clock.is_needed, clock.is_due) == (tick_s is not None, tick_s is not None)
