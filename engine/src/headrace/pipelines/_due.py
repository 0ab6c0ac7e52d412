"""Which keys have something due, found without a look at all of them."""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Any

from headrace.pipelines._elements import Key, States
from headrace.pipelines._keys import in_order_of_keys
from headrace.pipelines._time import END


class Due:
    """Keys by the time that something of theirs is due at.

    A key stands at its time or before it. Whoever brings a key's time forward says so; one that was put off is found out when
    it comes up.
    """

    def __init__(self, entries: Iterable[tuple[Key, int]] = ()) -> None:
        self._keys: dict[int, list[Key]] = {}
        for key, at in entries:
            if at < END:
                self._keys.setdefault(at, []).append(key)
        self._times = list(self._keys)
        heapify(self._times)

    def add(self, key: Key, at: int) -> None:
        """Something of a key is due at a time; nothing is where that is END."""
        if at == END:
            return
        keys = self._keys.get(at)
        if keys is None:
            self._keys[at] = [key]
            heappush(self._times, at)
        else:
            keys.append(key)

    def pop(self, until: int) -> list[Key]:
        """The keys that stand at a time up to this one, each once, in their order; they stand nowhere then."""
        found: list[Key] = []
        while self._times and self._times[0] <= until:
            found += self._keys.pop(heappop(self._times))
        return in_order_of_keys(set(found))


def due_of(states: States, at: Callable[[Any], int]) -> Due:
    """The index of states, made where there is none yet, and brought up to date.

    Args:
        states: The states of a step in one bucket.
        at: When something of a state is due; END for never.
    """
    due = states.index
    if due is None:
        due = states.index = Due((key, at(state)) for key, state in states.items())
    else:
        for key in states.news:
            if key in states:
                due.add(key, at(states[key]))
    states.news.clear()
    assert isinstance(due, Due)
    return due
