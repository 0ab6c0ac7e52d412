"""To find due states costs as much as there are of them, even when states come from elsewhere."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from tests.pipelines.rig import SECOND, keyed, pipeline, text

from headrace.pipelines import Context, Pipeline, count, tumbling
from headrace.pipelines.runtime import Elements, Key, Origin, Pass, States


class Counting(States):
    """States that count how often one of them is looked at, and refuse to be gone through."""

    looks = 0
    walks = 0

    def __getitem__(self, key: Key) -> Any:
        self.looks += 1
        return super().__getitem__(key)

    def items(self) -> Any:
        self.walks += 1
        return super().items()


def entered(app: Pipeline, states: States, step: str, keys: list[str], seconds: list[int]) -> Pass:
    """A pass of elements that go into the one step of a pipeline that keeps states."""
    graph = app.graph
    key_by = next(iter(number for number, found in enumerate(graph.steps) if found.label == "key_by"))
    passed = Pass(graph, {step: states})
    times = np.array(seconds, np.int64) * SECOND
    origin = Origin("s/0", np.arange(1, len(keys) + 1), [b""] * len(keys))
    values = [_Value(key) for key in keys]
    if keys:
        passed.enter(key_by, Elements(values, origin, None, keys, times, np.maximum.accumulate(times)))
    return passed


class _Value:
    def __init__(self, key: str) -> None:
        self.key, self.number = key, 1


def windows() -> Pipeline:
    app = pipeline()
    keyed(app).window(tumbling("10s")).aggregate(count()).sink("out", encode=text)
    return app


def timers() -> Pipeline:
    def set_(number: int, state: list[int], context: Context) -> None:
        context.set_timer(after="10s")

    app = pipeline()
    keyed(app).stateful(set_, list, on_timer=lambda state, context: 1, ttl="1 hour", name="window").sink("out", encode=text)
    return app


def test_the_cost_at_the_end_of_a_micro_batch_is_that_of_what_is_due() -> None:
    for app in (windows(), timers()):
        states = Counting()
        entered(app, states, "window", [f"old {n}" for n in range(1000)], [500] * 1000).fire_due(1, 0)
        entered(app, states, "window", ["a", "b"], [100, 100]).fire_due(1, 0)
        states.looks = states.walks = 0
        passed = entered(app, states, "window", [], [])
        passed.fire_due(1, 120 * SECOND)
        assert sum(len(elements) for _, elements in passed.written) == 2
        assert states.looks + states.walks < 10


def test_states_that_others_brought_up_to_date_are_found() -> None:
    for app in (windows(), timers()):
        (step,) = app.graph.keyed
        mine, theirs = States(), States()
        entered(app, mine, "window", ["a"], [100]).fire_due(1, 0)
        for elsewhere in (["b", "c"], ["b"]):
            entered(app, theirs, "window", elsewhere, [105] * len(elsewhere)).fire_due(1, 0)
        _catch_up(step, mine, theirs)
        mine.news.add("gone")
        passed = entered(app, mine, "window", [], [])
        passed.fire_due(1, 200 * SECOND)
        assert sorted(key for _, elements in passed.written for key in elements.keys or ()) == ["a", "b", "c"]
        assert mine.news == set()


def test_what_is_due_is_noted_as_changed() -> None:
    for app, still in ((windows(), set[Key]()), (timers(), {"a", "b"})):
        states = States()
        entered(app, states, "window", ["a", "b", "c"], [100, 100, 300]).fire_due(1, 0)
        passed = entered(app, states, "window", [], [])
        passed.fire_due(1, 150 * SECOND)
        assert list(passed.changed["window"]) == ["a", "b"]
        assert set(states) == still | {"c"}


def _catch_up(step: Any, mine: States, theirs: Mapping[Key, Any]) -> None:
    keys = list(theirs)
    mine.update(zip(keys, step.state_class.unpack(step.state_class.pack([theirs[key] for key in keys])), strict=True))
    mine.news.update(keys)
