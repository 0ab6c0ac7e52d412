"""Brings back the state that a key had before a function of the application raised."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from headrace.pipelines._elements import Key, States
from headrace.pipelines._state import StateClass

Redo = Callable[[Any], Any]
"""Makes of a state what it was after some call, given what it was before; GONE stands for no state."""
GONE: Any = object()
"""Stands for the state of a key that has none."""


class Undo:
    """What was done to the states of some keys, so that a call that failed half-way can be taken back.

    States are stored as they were at first. A call that failed is taken back by doing again, from there, all that went well
    before it. So a call costs nothing until one fails.
    """

    def __init__(self, states: States, state_class: StateClass, keys: Iterable[Key]) -> None:
        self._states, self._class = states, state_class
        self._there = [key for key in dict.fromkeys(keys) if key in states]
        self._packed = state_class.pack([states[key] for key in self._there])
        self._each: dict[Key, bytes] | None = None
        self._done: list[tuple[Key, Redo]] = []
        self._of_key: defaultdict[Key, list[Redo]] = defaultdict(list)

    def done(self, key: Key, redo: Redo) -> None:
        """Notes what went well."""
        self._done.append((key, redo))

    def undo(self, key: Key) -> Any:
        """The state of a key after all that went well, and put in its place; GONE where it has none."""
        if self._each is None:
            states = self._class.unpack(self._packed)
            self._each = {k: self._class.pack([state]) for k, state in zip(self._there, states, strict=True)}
        packed = self._each.get(key)
        state = GONE if packed is None else self._class.unpack(packed)[0]
        for done, redo in self._done:
            self._of_key[done].append(redo)
        self._done.clear()
        for redo in self._of_key[key]:
            state = redo(state)
        if state is GONE:
            self._states.pop(key, None)
        else:
            self._states[key] = state
        return state
