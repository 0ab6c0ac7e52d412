"""Running aggregates that are removed when their key has had no value for some time."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from headrace.pipelines._errors import no_time
from headrace.pipelines.elements.elements import Elements, Key
from headrace.pipelines.elements.message import NO_TIME
from headrace.pipelines.states.state import StateClass
from headrace.pipelines.steps.bound import Bound
from headrace.pipelines.steps.due import due_of
from headrace.pipelines.steps.rollback import GONE, Rollback, ValuesAsTheyWere
from headrace.pipelines.steps.running import Running
from headrace.pipelines.steps.step import OnError, StepPass
from headrace.pipelines.steps.timers import TimedState, TimedStateClass
from headrace.pipelines.time.time import in_words


@dataclass(frozen=True, eq=False)
class LastingRunning(Running):
    """A running aggregate with a time to live. It has the states of a `stateful` with one, so `ttl` may be added or removed.

    Attributes:
        ttl: The event time without a value after which a key's aggregate is removed, in microseconds.
    """

    ttl: int

    @cached_property
    def state_class(self) -> StateClass:
        """The class of the aggregation's accumulators, with the mark of the last value."""
        return TimedStateClass(self.aggregation.make, self.name)

    @property
    def bound(self) -> Bound:
        """The time to live."""
        return Bound(f"{self.aggregation.keeps} for each key, until {in_words(self.ttl)} of event time without a value (ttl)")

    @property
    def uses_time(self) -> bool:
        """True: aggregates expire by event time."""
        return True

    @property
    def lifetime(self) -> int:
        """The time to live."""
        return self.ttl

    def display(self, state: Any) -> Any:
        """The accumulator."""
        return state.state

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The result after each value, without headers."""
        keys, _, marks = elements.timed()
        states = step_pass.states(self.name)
        rollback = None if self.on_error is OnError.FAIL else Rollback(states, self.state_class, keys)
        kept = ValuesAsTheyWere(() if rollback is None else elements.values)
        results, indices, index = [], [], -1
        cell, notes = step_pass.notes(self, elements)
        try:
            for index, (cell[0], key, value, mark) in enumerate(zip(notes, keys, elements.values, marks, strict=True)):
                if mark == NO_TIME:
                    step_pass.failed(self, elements, index, no_time())
                    continue
                before = states.get(key, GONE)
                if before is not GONE and before.last != NO_TIME and self._due(before) <= mark:
                    before = GONE
                    del states[key]
                    if rollback is not None:
                        rollback.record(key, lambda _: GONE)
                try:
                    after = self._after(before, value=value, mark=mark)
                    result = self.aggregation.result(key, after.state)
                except BaseException as error:
                    step_pass.failed(self, elements, index, error)
                    assert rollback is not None, "failed() raises under OnError.FAIL"
                    rollback.roll_back(key)
                    continue
                states[key] = after
                if rollback is not None:
                    rollback.record(key, partial(self._repeated, key=key, values=kept, index=index, mark=mark))
                if before is GONE and states.index is not None:
                    states.index.add(key, self._due(after))
                if result is not None:
                    results.append(result)
                    indices.append(index)
        finally:
            step_pass.touched(self.name, keys[: index + 1])
        return elements.changed(results, indices).without_headers()

    def fire_due(self, step_pass: StepPass, watermark: int) -> Sequence[Elements]:
        """Removes expired aggregates; there are no results."""
        states = step_pass.states(self.name)
        due, touched = due_of(states, self._due), list[Key]()
        for key in due.pop(watermark):
            if key not in states:
                continue
            if states[key].last == NO_TIME:
                # The step had no time to live when the state was stored.
                states[key].last = watermark
                touched.append(key)
            if self._due(states[key]) <= watermark:
                del states[key]
                touched.append(key)
            else:
                due.add(key, self._due(states[key]))
        step_pass.touched(self.name, touched)
        return ()

    def _due(self, state: TimedState) -> int:
        return state.last + self.ttl

    def _after(self, before: Any, *, value: Any, mark: int) -> TimedState:
        state = TimedState(self.aggregation.make(), []) if before is GONE else before
        state.state = self.aggregation.step(state.state, value)
        state.last = max(state.last, mark)
        return state

    def _repeated(self, before: Any, *, key: Key, values: ValuesAsTheyWere, index: int, mark: int) -> TimedState:
        """Repeats a call with a copy of its value, and of the result, which may change the state."""
        state = self._after(before, value=values[index], mark=mark)
        self.aggregation.result(key, state.state)
        return state
