"""Removes duplicates, by an id."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from headrace.pipelines._errors import no_time
from headrace.pipelines.elements.elements import Elements, Key
from headrace.pipelines.elements.message import NO_TIME
from headrace.pipelines.states.state import StateClass
from headrace.pipelines.steps.bound import Bound
from headrace.pipelines.steps.due import due_of
from headrace.pipelines.steps.fingerprints import name_of
from headrace.pipelines.steps.keys import keyed, normal_keys
from headrace.pipelines.steps.stateless import KeyBy
from headrace.pipelines.steps.step import KeyedStep, Step, StepPass, each
from headrace.pipelines.time.time import END, in_words

Ids = Callable[[Any], Key | None]


@dataclass(frozen=True, eq=False)
class Deduplicate(KeyedStep):
    """Drops values whose id has occurred before for their key, within the event time `within`.

    The state of a key contains the mark at which each id occurred first. The mark of a value determines which ids are forgotten.

    Attributes:
        id: Returns the id of a value; None for the id of its message.
        within: How long an id is remembered, in microseconds of event time.
    """

    id: Ids | None
    within: int

    @cached_property
    def state_class(self) -> StateClass:
        """Dicts of ids and marks."""
        return StateClass(dict, self.name)

    @property
    def bound(self) -> Bound:
        """How long an id is remembered."""
        return Bound(f"each id for {in_words(self.within)} of event time (within)")

    @property
    def uses_time(self) -> bool:
        """True: ids expire by event time."""
        return True

    @property
    def lifetime(self) -> int:
        """How long an id is remembered."""
        return self.within

    @property
    def uses_ids(self) -> bool:
        """Whether the ids of the messages count."""
        return self.id is None

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The values with new ids, and those without an id."""
        ids, there = self._ids(elements, step_pass)
        keys, _, marks = there.timed()
        states, passed, touched = step_pass.states(self.name), list[int](), list[Key]()
        for index, (key, id_, mark) in enumerate(zip(keys, ids, marks, strict=True)):
            if id_ is None:
                passed.append(index)
            elif mark == NO_TIME:
                step_pass.failed(self, there, index, no_time())
            elif self._is_new(states, key, id_, mark):
                passed.append(index)
                touched.append(key)
        step_pass.touched(self.name, touched)
        return there if len(passed) == len(there) else there.pick(passed)

    def fire_due(self, step_pass: StepPass, watermark: int) -> Sequence[Elements]:
        """Removes expired ids; there are no results."""
        states, until = step_pass.states(self.name), watermark - self.within
        due, touched = due_of(states, self._first), list[Key]()
        for key in due.pop(until):
            if key in states and self._first(states[key]) <= until:
                touched.append(key)
                self._forget(states, key, until)
            if key in states:
                due.add(key, self._first(states[key]))
        step_pass.touched(self.name, touched)
        return ()

    def _ids(self, elements: Elements, step_pass: StepPass) -> tuple[Sequence[Key | None], Elements]:
        return normal_keys(self, *ids_of(self, self.id, elements, step_pass), step_pass)

    def _is_new(self, states: Any, key: Key, id_: Key, mark: int) -> bool:
        seen = states.get(key)
        if seen is None:
            states[key] = {id_: mark}
            if states.index is not None:
                states.index.add(key, mark)
            return True
        before = seen.get(id_)
        if before is not None and before + self.within > mark:
            return False
        # An id that occurs again moves to the end, so that the first one always expires next.
        seen.pop(id_, None)
        seen[id_] = mark
        return True

    def _forget(self, states: Any, key: Key, until: int) -> None:
        seen = states[key]
        while seen and self._first(seen) <= until:
            del seen[next(iter(seen))]
        if not seen:
            del states[key]

    def _first(self, ids: Any) -> int:
        first: int = next(iter(ids.values()), END)
        return first

    @property
    def kind(self) -> str:
        """The name of the method that adds it."""
        return "deduplicate"


@dataclass(frozen=True, eq=False)
class DeduplicateKeys(Deduplicate):
    """The same for values whose key is their id. The state of a key is the mark at which it occurred first."""

    @cached_property
    def state_class(self) -> StateClass:
        """Ints: marks."""
        return StateClass(int, self.name)

    @property
    def uses_ids(self) -> bool:
        """False: the ids are the keys."""
        return False

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The values with new ids, and those without an id, without keys."""
        return replace(super().apply(elements, step_pass), keys=None)

    def _ids(self, elements: Elements, step_pass: StepPass) -> tuple[Sequence[Key | None], Elements]:
        return [None if key == "" else key for key in elements.keys or ()], elements

    def _is_new(self, states: Any, key: Key, id_: Key, mark: int) -> bool:
        before = states.get(key)
        if before is not None and before + self.within > mark:
            return False
        states[key] = mark
        if states.index is not None:
            states.index.add(key, mark)
        return True

    def _forget(self, states: Any, key: Key, until: int) -> None:
        if states[key] <= until:
            del states[key]

    def _first(self, ids: Any) -> int:
        first: int = ids
        return first


@dataclass(frozen=True, eq=False)
class KeyById(KeyBy):
    """Partitions values by their ids; those without an id have an empty key."""

    id: Ids | None

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The same elements with their keys."""
        ids, there = ids_of(self, self.id, elements, step_pass)
        return keyed(self, ["" if id_ is None else id_ for id_ in ids], there, step_pass)

    @property
    def uses_ids(self) -> bool:
        """Whether the ids of the messages count."""
        return self.id is None

    @property
    def by(self) -> str:
        """A description of the ids, for the fingerprint."""
        return "ids of messages" if self.id is None else f"ids by {name_of(self.id)}"


def ids_of(step: Step, function: Ids | None, elements: Elements, step_pass: StepPass) -> tuple[Sequence[Key | None], Elements]:
    """The id of each element, and the elements for which the function did not raise.

    Raises:
        StepError: The function raises, and the step's policy is `OnError.FAIL`.
    """
    if function is not None:
        return each(step, function, elements, step_pass)
    ids = elements.origin.ids
    return [None] * len(elements) if ids is None else [ids[place] for place in elements.places()], elements


def key_of(value: Any) -> Any:
    """A placeholder for the function of a `key_by` that uses the ids of messages."""
    raise NotImplementedError("ids are taken from the messages")
