"""An index of keys by the time at which they are due, most of it in a file of the worker."""

import pickle
from collections.abc import Iterable

from headrace.engine.applications.states.spill_file import Table
from headrace.pipelines.runtime import END, Key, dumps_plain, in_order_of_keys

BUFFERED = 4_096
"""The number of entries in memory."""
_OFFSET, _TIME_BYTES = 2**63, 8


class SpilledDue:
    """Keys by time, with the methods of `Due` of the steps.

    Args:
        table: The table of the index, in the order of times.
        entries: The first entries.
    """

    def __init__(self, table: Table, entries: Iterable[tuple[Key, int]]) -> None:
        self._table = table
        self._buffered: set[tuple[int, Key]] = set()
        for key, at in entries:
            self.add(key, at)

    def add(self, key: Key, at: int) -> None:
        """Adds a key that is due at a time; END has no effect."""
        if at >= END:
            return
        self._buffered.add((max(at, -_OFFSET), key))
        if len(self._buffered) >= BUFFERED:
            self._table.write(sorted((_time_key(at) + dumps_plain(key), b"") for at, key in self._buffered))
            self._buffered = set()

    def pop(self, until: int) -> list[Key]:
        """Removes and returns the keys up to and including a time, without duplicates, in the order of keys."""
        if until < -_OFFSET:
            return []
        ready = {(at, key) for at, key in self._buffered if at <= until}
        self._buffered -= ready
        end = _time_key(min(until + 1, END))
        found = {key for _, key in ready}
        found.update(pickle.loads(memoryview(name)[_TIME_BYTES:]) for name, _ in self._table.scan(end=end))
        self._table.delete_before(end)
        return in_order_of_keys(found)


def _time_key(at: int) -> bytes:
    """A time as bytes, in the order of times."""
    return (at + _OFFSET).to_bytes(_TIME_BYTES, "big")
