"""Leaves out what was there before, by an id."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from headrace.pipelines._due import due_of
from headrace.pipelines._elements import Elements, Key
from headrace.pipelines._errors import no_time
from headrace.pipelines._fingerprints import named
from headrace.pipelines._keys import keyed
from headrace.pipelines._origin import NO_TIME
from headrace.pipelines._state import StateClass
from headrace.pipelines._step import KeyedStep, Run, Step, each
from headrace.pipelines._steps import KeyBy
from headrace.pipelines._time import END

Ids = Callable[[Any], Key | None]


@dataclass(frozen=True, eq=False)
class Deduplicate(KeyedStep):
    """Leaves out values whose id was there for their key, until event time has gone on by `within` since.

    The state of a key is the mark at which each of its ids was there first. A value's own mark says what is forgotten.

    Attributes:
        id: The id of a value; None for that of its message.
        within: For how long an id is remembered, in microseconds.
    """

    id: Ids | None
    within: int

    @cached_property
    def state_class(self) -> StateClass:
        """Ids and marks."""
        return StateClass(dict, self.name)

    @property
    def uses_time(self) -> bool:
        """It does."""
        return True

    @property
    def uses_ids(self) -> bool:
        """Where no function says what the id is."""
        return self.id is None

    def apply(self, elements: Elements, run: Run) -> Elements:
        """Values that are new, and those without an id."""
        ids, there = self._ids(elements, run)
        keys, _, marks = there.timed()
        states, passed, touched = run.states(self.name), list[int](), list[Key]()
        for index, (key, id_, mark) in enumerate(zip(keys, ids, marks, strict=True)):
            if id_ is None:
                passed.append(index)
            elif mark == NO_TIME:
                run.failed(self, there, index, no_time())
            else:
                try:
                    new = self._is_new(states, key, id_, mark)
                except TypeError as error:  # an id that cannot be looked up, such as a list
                    run.failed(self, there, index, error)
                    continue
                if new:
                    passed.append(index)
                    touched.append(key)
        run.touched(self.name, touched)
        return there if len(passed) == len(there) else there.pick(passed)

    def settle(self, run: Run, watermark: int) -> Sequence[Elements]:
        """Forgets ids; nothing comes of it."""
        states, until = run.states(self.name), watermark - self.within
        due, touched = due_of(states, self._first), list[Key]()
        for key in due.pop(until):
            if key in states and self._first(states[key]) <= until:
                touched.append(key)
                self._forget(states, key, until)
            if key in states:
                due.add(key, self._first(states[key]))
        run.touched(self.name, touched)
        return ()

    def _ids(self, elements: Elements, run: Run) -> tuple[Sequence[Key | None], Elements]:
        return ids_of(self, self.id, elements, run)

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
        # An id that was forgotten goes to the end, so that the first is always the next to be forgotten.
        seen.pop(id_, None)
        seen[id_] = mark
        return True

    def _forget(self, states: Any, key: Key, until: int) -> None:
        seen = states[key]
        while seen and self._first(seen) <= until:
            del seen[next(iter(seen))]
        if not seen:
            del states[key]

    def _first(self, seen: Any) -> int:
        first: int = next(iter(seen.values()), END)
        return first

    @property
    def kind(self) -> str:
        """How users call it."""
        return "deduplicate"


@dataclass(frozen=True, eq=False)
class DeduplicateKeys(Deduplicate):
    """The same for values whose key is their id. The state of a key is the mark at which it was there first."""

    @cached_property
    def state_class(self) -> StateClass:
        """Marks."""
        return StateClass(int, self.name)

    @property
    def uses_ids(self) -> bool:
        """They are its keys."""
        return False

    def apply(self, elements: Elements, run: Run) -> Elements:
        """Values that are new, and those without an id, which are keyed no more."""
        return replace(super().apply(elements, run), keys=None)

    def _ids(self, elements: Elements, run: Run) -> tuple[Sequence[Key | None], Elements]:
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

    def _first(self, seen: Any) -> int:
        first: int = seen
        return first


@dataclass(frozen=True, eq=False)
class KeyById(KeyBy):
    """Keys values by their ids, and those without one by nothing."""

    id: Ids | None

    def apply(self, elements: Elements, run: Run) -> Elements:
        """The same elements with their keys."""
        ids, there = ids_of(self, self.id, elements, run)
        return keyed(self, ["" if id_ is None else id_ for id_ in ids], there, run)

    @property
    def uses_ids(self) -> bool:
        """Where no function says what the id is."""
        return self.id is None

    @property
    def by(self) -> str:
        """Ids."""
        return "ids of messages" if self.id is None else f"ids by {named(self.id)}"


def ids_of(step: Step, function: Ids | None, elements: Elements, run: Run) -> tuple[Sequence[Key | None], Elements]:
    """The id of each element, and the elements for which it could be found out.

    Raises:
        StepError: the function raises, and the step's policy is to fail.
    """
    if function is not None:
        return each(step, function, elements, run)
    ids = elements.origin.ids
    return [None] * len(elements) if ids is None else [ids[place] for place in elements.places()], elements


def key_of(value: Any) -> Any:
    """Stands in for the function of a `key_by` that takes ids of messages."""
    raise NotImplementedError("ids are taken from the messages")
