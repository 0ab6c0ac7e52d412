"""States that cannot be stored: the error names step and key, and the element that leaves one follows its step's on_error."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from tests.engine.stages import Stages

from headrace.pipelines import Message, OnError, Pipeline, StateError, tumbling
from headrace.pipelines.runtime import Key


@dataclass
class Seen:
    numbers: list[object] = field(default_factory=list)


def add(number: int, state: Seen) -> str:
    """Keeps numbers, and a lock instead of each one above 100."""
    state.numbers.append(threading.Lock() if number > 100 else number)
    return f"{number}:{len(state.numbers)}"


def application(on_error: OnError) -> Pipeline:
    app = Pipeline("numbers", on_error=on_error, dead_letters="dead" if on_error is OnError.DEAD_LETTER else None)
    app.source("n/*", decode=int).key_by(lambda n: n % 3).stateful(add, Seen, name="seen").sink("out")
    return app


def messages(numbers: Iterable[int], first: int = 1) -> list[Message]:
    return [
        Message(b"%d" % n, event_time=(n % 100) * 1_000_000, stream="n/0", sequence=first + at) for at, n in enumerate(numbers)
    ]


def test_the_error_names_step_and_key() -> None:
    stages = Stages(application(OnError.FAIL))
    stages.send(*messages(range(6)))
    with pytest.raises(StateError, match=r"step seen, key 2: a state cannot be stored: .*lock.*; keep plain data in states"):
        stages.send(*messages([6, 7, 101, 8], 10))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("on_error", [OnError.SKIP, OnError.DEAD_LETTER])
def test_an_element_that_leaves_such_a_state_follows_on_error_and_no_other_does(on_error: OnError, seed: int) -> None:
    numbers = [*range(30), 101, 7, 102, 8, 101, *range(9, 20), 103, 104, 5]
    stages = Stages(application(on_error), seed=seed, failing=0.3)
    for at in range(0, len(numbers), 9):
        stages.send(*messages(numbers[at : at + 9], 1 + at))
    kept: dict[Key, list[int]] = {}
    expected: dict[Key, list[bytes]] = {}
    for number in numbers:
        if number <= 100:
            kept.setdefault(number % 3, []).append(number)
            expected.setdefault(number % 3, []).append(b"%d:%d" % (number, len(kept[number % 3])))
    assert stages.states()["seen"] == {key: Seen(list(found)) for key, found in kept.items()}
    assert sorted(value for _, value in stages.written["out"]) == sorted(
        value for values in expected.values() for value in values
    )
    if on_error is OnError.SKIP:
        assert stages.counts["skipped", "seen"] == 5
        return
    assert sorted(value for _, value in stages.written["dead"]) == [b"101", b"101", b"102", b"103", b"104"]
    for _, headers in stages.headers["dead"]:
        told = dict(headers)
        assert told["headrace-step"] == b"seen"
        assert b"NotStored: step seen, key " in told["headrace-reason"]


def test_a_new_key_whose_state_cannot_be_stored_has_none() -> None:
    stages = Stages(application(OnError.SKIP), buckets=1)
    stages.send(*messages([101]))
    assert stages.states() == {"seen": {}}
    stages.send(*messages([2], 2))
    assert stages.states() == {"seen": {2: Seen([2])}}


def test_two_steps_of_a_level_are_told_apart() -> None:
    app = Pipeline("two", on_error=OnError.SKIP)
    keyed = app.source("n/*", decode=int).key_by(lambda n: n % 3)
    keyed.stateful(add, Seen, name="first").sink("out")
    keyed.stateful(add, Seen, name="second").sink("out")
    stages = Stages(app, buckets=1)
    stages.send(*messages([1, 101, 2, 4]))
    assert stages.states() == {"first": {1: Seen([1, 4]), 2: Seen([2])}, "second": {1: Seen([1, 4]), 2: Seen([2])}}
    assert (stages.counts["skipped", "first"], stages.counts["skipped", "second"]) == (1, 1)


def test_windows_close_as_they_do_without_the_element() -> None:
    def put(values: list[object], number: int) -> list[object]:
        return [*values, threading.Lock() if number > 100 else number]

    app = Pipeline("windows", on_error=OnError.SKIP)
    timed = app.source("n/*", decode=int).event_time(lambda n: (n % 100) * 1_000_000).key_by(lambda n: n % 2)
    windows = timed.window(tumbling("10 s"))
    windows.aggregate(initial=list, update=put, output=lambda key, values, window: f"{key}:{values}", name="w").sink("out")
    with_it, without = Stages(app, buckets=1), Stages(app, buckets=1)
    for stages, numbers in (with_it, [1, 3, 101, 5, 12, 14, 113, 21, 31, 44]), (without, [1, 3, 5, 12, 14, 21, 31, 44]):
        stages.send(*messages(numbers))
        stages.send(*messages([52, 53], 20))
    assert with_it.written == without.written
    assert with_it.written["out"]
    assert with_it.shown("w", with_it.states()["w"]) == without.shown("w", without.states()["w"])
