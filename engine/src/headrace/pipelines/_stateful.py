"""The step that hands each value to a function together with its key's state."""

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headrace.pipelines._elements import Elements, Key
from headrace.pipelines._state import StateClass
from headrace.pipelines._step import KeyedStep, OnError, Run


@dataclass(frozen=True, eq=False)
class Stateful(KeyedStep):
    """Calls a function with each value and the state of its key.

    Attributes:
        function: Takes a value and its key's state, which it may change; what it returns goes on, None goes nowhere.
        make: Makes the state of a key that is new.
    """

    function: Callable[[Any, Any], Any]
    make: Callable[[], Any]

    @cached_property
    def state_class(self) -> StateClass:
        """Made by `make`."""
        return StateClass(self.make, self.name)

    @property
    def kind(self) -> str:
        """One, whatever its function returns."""
        return "stateful"

    def apply(self, elements: Elements, run: Run) -> Elements:
        """What the function returns, in the order of the elements."""
        assert elements.keys is not None, "the graph puts such a step behind a key_by"
        states = run.states(self.name)
        undo = None if self.on_error is OnError.FAIL else _Undo(self, elements, states)
        results, indices, index = [], [], -1
        function, make = self.function, self.make
        try:
            for index, (key, value) in enumerate(zip(elements.keys, elements.values, strict=True)):
                try:
                    state = states[key]
                except KeyError:
                    state = states[key] = make()
                try:
                    result = function(value, state)
                except Exception as error:
                    run.failed(self, elements, index, error)
                    assert undo is not None, "a run raises where the policy is to fail"
                    states[key] = undo.state_before(index)
                    continue
                if result is not None:
                    results.append(result)
                    indices.append(index)
        finally:
            run.touched(self.name, elements.keys[: index + 1])
        return self._collected(results, indices, elements)

    def _collected(self, results: Sequence[Any], indices: Sequence[int], elements: Elements) -> Elements:
        return elements.changed(results, indices)


@dataclass(frozen=True, eq=False)
class StatefulFlat(Stateful):
    """The same with a function that returns a list of results for each value."""

    function: Callable[[Any, Any], list[Any]]

    def _collected(self, results: Sequence[list[Any]], indices: Sequence[int], elements: Elements) -> Elements:
        spread = [index for index, found in zip(indices, results, strict=True) for _ in found]
        return elements.changed([result for found in results for result in found], spread)


def listed(function: Callable[[Any, Any], Iterable[Any] | None]) -> Callable[[Any, Any], list[Any]]:
    """A function that has done all its work, and changed its state, by the time it returns."""
    return lambda value, state: list(function(value, state) or ())


class _Undo:
    """Undoes what a function did to a state before it raised: the state is again what the values before had made it."""

    def __init__(self, step: Stateful, elements: Elements, states: MutableMapping[Key, Any]) -> None:
        assert elements.keys is not None
        self._step, self._elements = step, elements
        self._places = {key: place for place, key in enumerate(key for key in set(elements.keys) if key in states)}
        self._packed = step.state_class.pack([states[key] for key in self._places])
        self._failed: set[int] = set()

    def state_before(self, index: int) -> Any:
        """The state of the element's key without the element."""
        self._failed.add(index)
        keys, values = self._elements.keys, self._elements.values
        assert keys is not None
        key, step = keys[index], self._step
        place = self._places.get(key)
        state = step.make() if place is None else step.state_class.unpack(self._packed)[place]
        for earlier in range(index):
            if keys[earlier] == key and earlier not in self._failed:
                step.function(values[earlier], state)
        return state
