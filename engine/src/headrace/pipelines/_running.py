"""Aggregations without windows of time: running ones, and those of so many values."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast

from headrace.pipelines._aggregation import Functions
from headrace.pipelines._elements import Elements, Key, States
from headrace.pipelines._state import StateClass
from headrace.pipelines._step import KeyedStep, OnError, Run
from headrace.pipelines._undo import GONE, Undo

_LAYOUT = "a count and what was counted"


@dataclass(frozen=True, eq=False)
class Running(KeyedStep):
    """Gives a result for each value: that of all values of its key so far. The state is the accumulator."""

    aggregation: Functions

    @cached_property
    def state_class(self) -> StateClass:
        """Made by the aggregation."""
        return StateClass(self.aggregation.make, self.name)

    @property
    def label(self) -> str:
        """How users call it."""
        return "aggregate"

    def apply(self, elements: Elements, run: Run) -> Elements:
        """The result after each value."""
        assert elements.keys is not None, "the graph puts such a step behind a key_by"
        states = run.states(self.name)
        undo = None if self.on_error is OnError.FAIL else Undo(states, self.state_class, elements.keys)
        results, indices, index = [], [], -1
        try:
            for index, (key, value) in enumerate(zip(elements.keys, elements.values, strict=True)):
                try:
                    result = self._take(states, key, value)
                except Exception as error:
                    run.failed(self, elements, index, error)
                    assert undo is not None, "a run raises where the policy is to fail"
                    undo.undo(key)
                    continue
                if undo is not None:
                    undo.done(key, partial(self._updated, value=value))
                if result is not None:
                    results.append(result)
                    indices.append(index)
        finally:
            run.touched(self.name, elements.keys[: index + 1])
        return elements.changed(results, indices)

    def _take(self, states: States, key: Key, value: Any) -> Any:
        state = states[key] = self._updated(states.get(key, GONE), value=value)
        return self.aggregation.finish(key, state, None)

    def _updated(self, state: Any, *, value: Any) -> Any:
        return self.aggregation.step(self.aggregation.make() if state is GONE else state, value)


class Counted:
    """Values of a key that are not so many yet.

    Attributes:
        count: How many.
        accumulator: What the aggregation made of them.
    """

    __slots__ = ("accumulator", "count")

    def __init__(self, count: int, accumulator: Any) -> None:
        self.count, self.accumulator = count, accumulator


@dataclass(frozen=True)
class CountedClass(StateClass):
    """Counted values; their accumulators are the states that have a class."""

    def pack(self, states: Sequence[Any]) -> bytes:
        """Counted values as bytes."""
        return self.laid_out(_LAYOUT, [state.count for state in states], [state.accumulator for state in states])

    def unpack(self, packed: bytes) -> list[Any]:
        """The counted values of such bytes."""
        return list(map(Counted, *self.taken_apart(_LAYOUT, packed)))


@dataclass(frozen=True, eq=False)
class CountWindows(Running):
    """Gives a result for so many values of a key, and begins anew."""

    size: int

    @cached_property
    def state_class(self) -> StateClass:
        """Accumulators are made by the aggregation."""
        return CountedClass(self.aggregation.make, self.name)

    @property
    def label(self) -> str:
        """How users call it."""
        return "count_window"

    @property
    def divided(self) -> str:
        """So many values."""
        return f"{self.size:,} values"

    def shown(self, state: Any) -> Any:
        """How many values there are, and their accumulator."""
        return state.count, state.accumulator

    def _take(self, states: States, key: Key, value: Any) -> Any:
        state = self._counted(states.get(key, GONE), value)
        if state.count < self.size:
            states[key] = state
            return None
        result = self.aggregation.finish(key, state.accumulator, None)
        states.pop(key, None)
        return result

    def _updated(self, state: Any, *, value: Any) -> Any:
        state = self._counted(state, value)
        return state if state.count < self.size else GONE

    def _counted(self, before: Any, value: Any) -> Counted:
        state = Counted(0, self.aggregation.make()) if before is GONE else cast(Counted, before)
        state.accumulator = self.aggregation.step(state.accumulator, value)
        state.count += 1
        return state
