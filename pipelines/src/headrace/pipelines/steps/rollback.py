"""Restores the state of a key if a function of the application raised."""

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headrace.pipelines.elements.elements import Key, States
from headrace.pipelines.states.state import StateClass
from headrace.pipelines.steps.copies import FIXED, copied

Replay = Callable[[Any], Any]
"""Repeats a call: returns the state after it, given the state before. GONE means no state."""
GONE: Any = object()
"""The state of a key that has none."""


class ValuesAsTheyWere:
    """The values of elements as they were before any function was called, which may change them.

    They are serialised, so that there is little cost until a call fails.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self._values: Sequence[Any] | None = None
        if FIXED.issuperset(map(type, values)):
            self._values = values
            return
        try:
            self._packed = pickle.dumps(list(values), 5)
        except Exception:
            self._values = list(map(copied, values))

    def __getitem__(self, index: int) -> Any:
        """A new copy of the value at an index."""
        if self._values is None:
            self._values = pickle.loads(self._packed)
        return copied(self._values[index])


class Rollback:
    """A log of the calls that changed the states of some keys, to roll back a failed call.

    The initial states are serialised. A failed call is rolled back by replaying the successful calls from there, so that there is
    little cost until a call fails.
    """

    def __init__(self, states: States, state_class: StateClass, keys: Iterable[Key]) -> None:
        self._states, self._class = states, state_class
        self._there = [key for key in dict.fromkeys(keys) if key in states]
        self._packed = state_class.pack([states[key] for key in self._there])
        self._each: dict[Key, bytes] | None = None
        self._recorded: list[tuple[Key, Replay]] = []
        self._of_key: defaultdict[Key, list[Replay]] = defaultdict(list)

    def record(self, key: Key, replay: Replay) -> None:
        """Records a successful call."""
        self._recorded.append((key, replay))

    def roll_back(self, key: Key) -> Any:
        """Restores and returns the state of a key after all successful calls; GONE if it has none."""
        if self._each is None:
            states = self._class.unpack(self._packed)
            self._each = {k: self._class.pack([state]) for k, state in zip(self._there, states, strict=True)}
        packed = self._each.get(key)
        state = GONE if packed is None else self._class.unpack(packed)[0]
        for done, replay in self._recorded:
            self._of_key[done].append(replay)
        self._recorded.clear()
        for replay in self._of_key[key]:
            state = replay(state)
        if state is GONE:
            self._states.pop(key, None)
        else:
            self._states[key] = state
        return state
