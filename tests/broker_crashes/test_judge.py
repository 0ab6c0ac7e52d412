"""The judge finds what is wrong in results made by hand, and the schedule kills everything once."""

from dataclasses import replace

import pytest
from tests.broker_crashes.schedule import BROKER, DRIVER, GATEWAY, SINKS, SOURCES, Victim, schedule
from tests.broker_crashes.workload import (
    Row,
    model,
    not_all_counted_once,
    not_at_least_once,
    not_the_last,
    other_than_once,
    value_of,
)

PUBLISHED = 40
ROWS = model(PUBLISHED)
LAST = list({row.key: row for row in ROWS}.values())
ROW_JUDGES = [other_than_once, not_at_least_once, not_all_counted_once]


def counted_twice(number: int) -> list[Row]:
    """The rows where a message was counted twice."""
    twice = ROWS[number - 1]
    more = {row.number: row.count + 1 for row in ROWS[number:] if row.key == twice.key}
    return [replace(row, count=more.get(row.number, row.count)) for row in ROWS]


@pytest.mark.parametrize("judge", ROW_JUDGES)
def test_what_is_right_passes(judge) -> None:
    assert judge(ROWS, PUBLISHED) == []


@pytest.mark.parametrize("judge", ROW_JUDGES)
@pytest.mark.parametrize(
    "wrong",
    [
        ROWS[:-1],
        ROWS[1:],
        ROWS[:20] + ROWS[21:],
        model(PUBLISHED + 1),
        counted_twice(7),
        [*ROWS[:-1], replace(ROWS[-1], checksum=1)],
    ],
    ids=["the last is lost", "the first is lost", "one is lost", "one too many", "one is counted twice", "a state is wrong"],
)
def test_what_is_wrong_is_found(judge, wrong: list[Row]) -> None:
    assert judge(wrong, PUBLISHED) != []


def test_a_row_that_is_there_again_matters_where_each_must_be_there_once() -> None:
    assert other_than_once([*ROWS, ROWS[-1]], PUBLISHED) == [f"{ROWS[-1]} is there 2 times"]
    assert not_at_least_once([*ROWS, ROWS[-1]], PUBLISHED) == []
    assert not_all_counted_once([*ROWS, ROWS[-1]], PUBLISHED) == []


def test_rows_out_of_order_matter_where_each_must_be_there_once() -> None:
    first, second = (row for row in ROWS if row.key == ROWS[0].key and row.count <= 2)
    swapped = [{first: second, second: first}.get(row, row) for row in ROWS]
    assert other_than_once(swapped, PUBLISHED) == [f"the rows of {first.key} are out of order"]
    assert not_at_least_once(swapped, PUBLISHED) == []


def test_what_came_of_another_run_of_a_batch_may_stay_where_a_queue_is_read() -> None:
    stray = replace(ROWS[20], count=ROWS[20].count - 1)
    assert not_all_counted_once([*ROWS[:20], stray, *ROWS[20:]], PUBLISHED) == []
    assert not_at_least_once([*ROWS, stray], PUBLISHED) == [f"{stray} is not what must be there"]


def test_the_last_rows_are_judged() -> None:
    assert not_the_last(LAST, PUBLISHED) == []
    for wrong in (LAST[1:], [*LAST, LAST[0]], [replace(LAST[0], count=1), *LAST[1:]], ROWS):
        assert not_the_last(wrong, PUBLISHED) != []


def test_a_row_is_read_as_it_was_written() -> None:
    assert Row.decode(ROWS[3].encode()) == ROWS[3]
    assert int(value_of(3).split(b" ")[0]) == 3


@pytest.mark.parametrize("seed", range(20))
def test_everything_is_killed_once(seed: int) -> None:
    systems = ["rabbitmq", "nats"]
    rounds = schedule(seed, systems)
    shared = {Victim(GATEWAY), Victim(DRIVER)}
    own = {Victim(role, system) for role in (SOURCES, SINKS, BROKER) for system in systems}
    victims = [victim for victims in rounds for victim in victims]
    assert len(victims) == len(set(victims))
    assert set(victims) == shared | own
    assert all(len({victim.system for victim in victims}) == len(victims) for victims in rounds)
    assert rounds == schedule(seed, systems)
