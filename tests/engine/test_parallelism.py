"""How many tasks read a micro-batch."""

import pytest

from headrace.engine.source.parallelism import Parallelism
from headrace.engine.source.ranges import MIN_TASK_WEIGHT


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def ran(parallelism: Parallelism, clock: Clock, size: int, seconds: float) -> int:
    """A micro-batch with a number of tasks that the parallelism has chosen; its messages take some seconds in one task."""
    tasks = parallelism.tasks(size)
    parallelism.begin(size, tasks)
    clock.now += 0.1 + seconds / tasks
    parallelism.end()
    return tasks


def test_tasks_are_worth_their_start() -> None:
    parallelism = Parallelism(8)
    assert parallelism.tasks(1) == 1
    assert parallelism.tasks(3 * MIN_TASK_WEIGHT) == 3
    assert parallelism.tasks(100 * MIN_TASK_WEIGHT) == 8


def test_small_messages_that_take_long_are_divided() -> None:
    clock = Clock()
    parallelism = Parallelism(8, clock=clock)
    assert [ran(parallelism, clock, 10_000, 50.0) for _ in range(4)] == [1, 1, 8, 8]
    # A tenth of them takes 5 s in one task.
    assert ran(parallelism, clock, 1_000, 5.0) == 8
    assert ran(parallelism, clock, 100, 0.5) == 1


def test_tasks_become_fewer_when_messages_take_less() -> None:
    clock = Clock()
    parallelism = Parallelism(8, clock=clock)
    for _ in range(2):
        ran(parallelism, clock, 10_000, 20.0)
    assert [ran(parallelism, clock, 10_000, 0.05) for _ in range(3)] == [8, 1, 1]


def test_one_slow_micro_batch_divides_no_quick_ones() -> None:
    clock = Clock()
    parallelism = Parallelism(8, clock=clock)
    assert [ran(parallelism, clock, 1_000, seconds) for seconds in (9.0, 0.01, 0.01, 9.0, 0.01)] == [1] * 5


def test_a_micro_batch_that_ends_within_the_interval_need_not_be_faster() -> None:
    clock = Clock()
    parallelism = Parallelism(8, interval_s=5.0, clock=clock)
    assert [ran(parallelism, clock, 10_000, 4.0) for _ in range(3)] == [1, 1, 1]
    assert [ran(parallelism, clock, 10_000, 40.0) for _ in range(3)] == [1, 1, 8]


@pytest.mark.parametrize("size", [0, 1])
def test_micro_batches_without_messages_do_not_count(size: int) -> None:
    clock = Clock()
    parallelism = Parallelism(8, clock=clock)
    parallelism.end()
    parallelism.begin(0, 1)
    clock.now += 100
    parallelism.end()
    parallelism.end()
    assert parallelism.tasks(size) == 1
