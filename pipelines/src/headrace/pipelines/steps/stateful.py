"""The step that calls a function with each value and its key's state."""

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headrace.pipelines.elements.elements import Elements, Key
from headrace.pipelines.states.state import StateClass
from headrace.pipelines.steps.bound import Bound
from headrace.pipelines.steps.copies import FIXED
from headrace.pipelines.steps.returned import own, own_or_none
from headrace.pipelines.steps.rollback import ValuesAsTheyWere
from headrace.pipelines.steps.step import KeyedStep, OnError, StepPass


@dataclass(frozen=True, eq=False)
class Stateful(KeyedStep):
    """Calls a function with each value and the state of its key.

    Attributes:
        function: Called with a value and its key's state, which it may change. It returns the result; None is dropped.
        make: Creates the state of a new key.
    """

    function: Callable[[Any, Any], Any]
    make: Callable[[], Any]

    @cached_property
    def state_class(self) -> StateClass:
        """The class of the states that `make` creates."""
        return StateClass(self.make, self.name)

    @property
    def bound(self) -> Bound:
        """None: only a step with a context can forget."""
        return Bound("your state of each key", "call context.forget(), or set ttl or max_keys")

    @property
    def kind(self) -> str:
        """The same for all stateful steps, whatever their functions return."""
        return "stateful"

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The results of the function, in the order of the elements."""
        assert elements.keys is not None, "the graph puts such a step behind a key_by"
        states = step_pass.states(self.name)
        rollback = None if self.on_error is OnError.FAIL else _Rollback(self, elements, states)
        results, indices, index = [], [], -1
        cell, notes = step_pass.notes(self, elements)
        function, make = self.function, self.make
        try:
            for index, (cell[0], key, value) in enumerate(zip(notes, elements.keys, elements.values, strict=True)):
                try:
                    state = states[key]
                except KeyError:
                    state = states[key] = make()
                try:
                    result = function(value, state)
                    if result is None:
                        continue
                    if type(result) not in FIXED:
                        result = own(result)
                except BaseException as error:
                    step_pass.failed(self, elements, index, error)
                    assert rollback is not None, "failed() raises under OnError.FAIL"
                    states[key] = rollback.state_before(index)
                    continue
                results.append(result)
                indices.append(index)
        finally:
            step_pass.touched(self.name, elements.keys[: index + 1])
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
    """A function that returns a list: a generator must run to its end before the state is used again."""
    return lambda value, state: own_or_none(function(value, state))


class _Rollback:
    """Restores the state of a key if the function raised: the state after the values before."""

    def __init__(self, step: Stateful, elements: Elements, states: MutableMapping[Key, Any]) -> None:
        assert elements.keys is not None
        self._step, self._elements = step, elements
        self._places = {key: place for place, key in enumerate(key for key in set(elements.keys) if key in states)}
        self._packed = step.state_class.pack([states[key] for key in self._places])
        self._values = ValuesAsTheyWere(elements.values)
        self._failed: set[int] = set()

    def state_before(self, index: int) -> Any:
        """The state of the element's key before the element."""
        self._failed.add(index)
        keys, values = self._elements.keys, self._values
        assert keys is not None
        key, step = keys[index], self._step
        place = self._places.get(key)
        state = step.make() if place is None else step.state_class.unpack(self._packed)[place]
        for earlier in range(index):
            if keys[earlier] == key and earlier not in self._failed:
                step.function(values[earlier], state)
        return state
