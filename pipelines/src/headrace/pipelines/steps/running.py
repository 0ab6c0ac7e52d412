"""Running aggregations: a result for each value."""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from headrace.pipelines.elements.elements import Elements, Key, States
from headrace.pipelines.states.state import StateClass
from headrace.pipelines.steps.aggregation import Functions
from headrace.pipelines.steps.bound import Bound
from headrace.pipelines.steps.rollback import GONE, Rollback, ValuesAsTheyWere
from headrace.pipelines.steps.step import KeyedStep, OnError, StepPass


@dataclass(frozen=True, eq=False)
class Running(KeyedStep):
    """For each value, the aggregate of all values of its key so far. The state is the accumulator."""

    aggregation: Functions

    @cached_property
    def state_class(self) -> StateClass:
        """The class of the aggregation's accumulators."""
        return StateClass(self.aggregation.make, self.name)

    @property
    def bound(self) -> Bound:
        """None."""
        return Bound(f"{self.aggregation.keeps} for each key", "set ttl, clock_ttl or max_keys")

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "aggregate"

    @property
    def passes_headers(self) -> bool:
        """False: a result comes from many values."""
        return False

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The result after each value, without headers."""
        assert elements.keys is not None, "the graph puts such a step behind a key_by"
        states = step_pass.states(self.name)
        rollback = None if self.on_error is OnError.FAIL else Rollback(states, self.state_class, elements.keys)
        kept = ValuesAsTheyWere(() if rollback is None else elements.values)
        results, indices, index = [], [], -1
        cell, notes = step_pass.notes(self, elements)
        try:
            for index, (cell[0], key, value) in enumerate(zip(notes, elements.keys, elements.values, strict=True)):
                try:
                    result = self._take(states, key, value)
                except BaseException as error:
                    step_pass.failed(self, elements, index, error)
                    assert rollback is not None, "failed() raises under OnError.FAIL"
                    rollback.roll_back(key)
                    continue
                if rollback is not None:
                    rollback.record(key, partial(self._again, key=key, values=kept, index=index))
                if result is not None:
                    results.append(result)
                    indices.append(index)
        finally:
            step_pass.touched(self.name, elements.keys[: index + 1])
        return elements.changed(results, indices).without_headers()

    def _take(self, states: States, key: Key, value: Any) -> Any:
        state = states[key] = self._updated(states.get(key, GONE), value=value)
        return self.aggregation.result(key, state)

    def _again(self, state: Any, *, key: Key, values: ValuesAsTheyWere, index: int) -> Any:
        """Repeats a call with a copy of its value, which may have changed, and of the result, which may change the state."""
        state = self._updated(state, value=values[index])
        if state is not GONE:
            self.aggregation.result(key, state)
        return state

    def _updated(self, state: Any, *, value: Any) -> Any:
        return self.aggregation.step(self.aggregation.make() if state is GONE else state, value)
