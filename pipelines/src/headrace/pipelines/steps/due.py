"""An index of keys by the time at which they are due."""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Any, Protocol

from headrace.pipelines.elements.elements import Key, States
from headrace.pipelines.steps.keys import in_order_of_keys
from headrace.pipelines.time.time import END


class Due:
    """A priority queue of keys by the time at which a timer or window of theirs is due.

    A key is listed at its time or earlier. If its time becomes earlier, it must be added again. If it becomes later, this is
    noticed when the key is removed.
    """

    def __init__(self, entries: Iterable[tuple[Key, int]] = ()) -> None:
        self._keys: dict[int, list[Key]] = {}
        for key, at in entries:
            if at < END:
                self._keys.setdefault(at, []).append(key)
        self._times = list(self._keys)
        heapify(self._times)

    def add(self, key: Key, at: int) -> None:
        """Adds a key that is due at a time; END has no effect."""
        if at == END:
            return
        keys = self._keys.get(at)
        if keys is None:
            self._keys[at] = [key]
            heappush(self._times, at)
        else:
            keys.append(key)

    def pop(self, until: int) -> list[Key]:
        """Removes and returns the keys up to and including a time, without duplicates, in the order of keys."""
        found: list[Key] = []
        while self._times and self._times[0] <= until:
            found += self._keys.pop(heappop(self._times))
        return in_order_of_keys(set(found))


class Index(Protocol):
    """What steps need of an index; see `Due`."""

    def add(self, key: Key, at: int) -> None:
        """Adds a key that is due at a time; END has no effect."""

    def pop(self, until: int) -> list[Key]:
        """Removes and returns the keys up to and including a time, without duplicates, in the order of keys."""


def due_by_clock(states: States, at: Callable[[Any], int]) -> Index:
    """The up-to-date index of states by the clock, which is created if there is none.

    Args:
        states: The states of a step in one bucket.
        at: Returns when a state is due by the clock; END for never.
    """
    due = states.by_clock = _up_to_date(states, states.by_clock, states.clock_news, at)
    return due


def due_of(states: States, at: Callable[[Any], int]) -> Index:
    """The up-to-date index of states, which is created if there is none.

    Args:
        states: The states of a step in one bucket.
        at: Returns when a state is due; END for never.
    """
    due = states.index = _up_to_date(states, states.index, states.news, at)
    return due


def _up_to_date(states: States, due: Index | None, news: set[Key], at: Callable[[Any], int]) -> Index:
    """Adds to an index the keys that it does not include yet, all if there is none, and returns it."""
    if due is None:
        entries = ((key, at(state)) for key, state in states.items())
        own: Index | None = states.own_index(entries)
        due = Due(entries) if own is None else own
    else:
        for key in news:
            if key in states:
                due.add(key, at(states[key]))
    news.clear()
    return due
