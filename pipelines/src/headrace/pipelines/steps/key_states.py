"""The states of keys, as functions that receive Arrow record batches access them."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

from headrace.pipelines.elements.elements import Key, States
from headrace.pipelines.steps.copies import copied
from headrace.pipelines.steps.keys import normal_key
from headrace.pipelines.steps.rollback import GONE

S = TypeVar("S")

_PLAIN = (bytes, str)


class KeyStates(Generic[S]):
    """The states of a step for a columnar function: `states[key]` is the state of a key, which is created for a new key.

    Only a key of the record batch can be new: the states of another one may be in another task.
    """

    def __init__(self, states: States, make: Callable[[], S], keys: Sequence[Key]) -> None:
        self._states = states
        self._make = make
        self._keys = keys
        self.asked: dict[Key, None] = {}
        """The keys whose states the function has accessed, and may have changed."""
        self._before: dict[Key, Any] | None = None

    def __getitem__(self, key: Key) -> S:
        """The state of a key, which may be changed.

        Raises:
            TypeError: It cannot be a key.
            ValueError: It cannot be a key.
            KeyError: It has no state, and is not a key of the record batch.
        """
        state: S
        key = _normal(key)
        if key not in self._states and key not in self._here:
            raise KeyError(f"{key!r} is not a key of this record batch, and has no state here")
        self._note(key)
        try:
            state = self._states[key]
        except KeyError:
            state = self._states[key] = self._make()
        return state

    def __delitem__(self, key: Key) -> None:
        """Removes the state of a key."""
        key = _normal(key)
        self._note(key)
        self._states.pop(key, None)

    def __contains__(self, key: Key) -> bool:
        """Whether a key has a state."""
        return _normal(key) in self._states

    def __iter__(self) -> Iterator[Key]:
        """Iterates over the keys with states in this bucket."""
        return iter(list(self._states))

    def remember(self) -> None:
        """Has each state copied before the function can change it."""
        self._before = {}

    def roll_back(self) -> None:
        """Restores the states that the function has accessed, if they are remembered."""
        for key, state in (self._before or {}).items():
            if state is GONE:
                self._states.pop(key, None)
            else:
                self._states[key] = state

    def _note(self, key: Key) -> None:
        self.asked[key] = None
        if self._before is not None and key not in self._before:
            self._before[key] = copied(self._states[key]) if key in self._states else GONE

    @cached_property
    def _here(self) -> frozenset[Key]:
        return frozenset(self._keys)


def _normal(key: Key) -> Key:
    """The normal form of a key that a function uses."""
    return key if type(key) in _PLAIN else normal_key(key)
