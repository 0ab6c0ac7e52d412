"""The states of a step: the last that were used are in memory, and the others in a file of the worker."""

import pickle
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from sys import getsizeof
from typing import Any

from headrace.engine.applications.states.keys import parts_in
from headrace.engine.applications.states.spill_file import SpillFile, key_of, names_of
from headrace.engine.applications.states.spilled_due import SpilledDue
from headrace.pipelines.runtime import Key, NotStored, StateClass, States

_SAMPLE = 64
"""The number of states that are sampled to estimate the size of all."""
_FIELDS_BYTES = 120
"""The approximate size of the dict of an instance without slots."""
_ENTRY_BYTES = 220
"""The approximate size of an entry in a dict and two sets, with what the allocator rounds up."""
_NONE: Any = object()
"""Instead of a state that a key does not have."""
_PICKLED, _PACKED = b"\0", b"\1"
"""The first byte of a row: whether it is a pickle, or from `StateClass.pack`."""


class SpilledStates(States):
    """States by key, in memory up to a limit.

    States leave memory only when no step uses them: in `begin`, `update` and `limit`.

    Args:
        file: The file.
        state_class: How states are stored which cannot be pickled.
        room_bytes: The approximate limit of memory, in bytes.
    """

    __slots__ = ("_absent", "_class", "_ended", "_file", "_room", "_room_bytes", "_rows", "_stored", "_table", "_unsaved")

    def __init__(self, file: SpillFile, state_class: StateClass, room_bytes: int) -> None:
        super().__init__()
        self._file = file
        self._table = file.table()
        self._class = state_class
        self._room_bytes = room_bytes
        self._room = 0
        """The number of states that may be in memory."""
        self._rows = 0
        """The number of rows in the file."""
        self._stored: set[Key] = set()
        """The keys in memory that have a row."""
        self._unsaved: set[Key] = set()
        """The keys in memory that have no row, or one that is out of date."""
        self._ended: set[Key] = set()
        """The keys that have a row, and no longer a state."""
        self._absent: set[Key] = set()
        """Keys that are not in memory, and are known to have no row."""

    # What steps call

    def begin(self, keys: Collection[Key]) -> None:
        """Reads the states of some keys that are not in memory, and removes from it what was used least recently."""
        here, wanted = dict.__contains__, dict.fromkeys(keys)
        missing = [key for key in wanted if not here(self, key)]
        if not self._rows and dict.__len__(self) + len(missing) <= self._room:
            return
        for key in wanted:
            if here(self, key):
                # To the end of the dict, whose first entries leave it first.
                dict.__setitem__(self, key, dict.pop(self, key))
        self._evict(len(wanted) - len(missing), dict.__len__(self) + len(missing))
        self._absent = set(missing)
        if asked := [key for key in missing if key not in self._ended] if self._rows else []:
            for key, row in zip(asked, self._read(asked), strict=True):
                if row is not None:
                    self._put(key, row)
                    self._absent.remove(key)

    def touched(self, keys: Collection[Key]) -> None:
        """Records that states may have changed in place."""
        self._unsaved.update(key for key in keys if dict.__contains__(self, key))

    def own_index(self, entries: Iterable[tuple[Key, int]]) -> SpilledDue:
        """An index in the file."""
        return SpilledDue(self._file.table(), entries)

    def __missing__(self, key: Key) -> Any:
        """Reads the state of a key that is not in memory."""
        state = self._load(key)
        if state is _NONE:
            raise KeyError(key)
        return state

    def __contains__(self, key: object) -> bool:
        """Whether a key has a state."""
        return dict.__contains__(self, key) or self._load(key) is not _NONE  # type: ignore[arg-type]

    def get(self, key: Key, default: Any = None) -> Any:
        """The state of a key, or the default."""
        state = dict.get(self, key, _NONE)
        if state is _NONE:
            state = self._load(key)
        return default if state is _NONE else state

    def __setitem__(self, key: Key, state: Any) -> None:
        """Replaces the state of a key."""
        if not dict.__contains__(self, key):
            if key in self._ended:
                self._ended.remove(key)
                self._stored.add(key)
            elif self._has_row(key):
                self._stored.add(key)
        self._unsaved.add(key)
        dict.__setitem__(self, key, state)

    def __delitem__(self, key: Key) -> None:
        """Removes the state of a key."""
        if dict.__contains__(self, key):
            dict.__delitem__(self, key)
            self._unsaved.discard(key)
            if key in self._stored:
                self._stored.remove(key)
                self._ended.add(key)
        elif key not in self._ended and self._has_row(key):
            self._ended.add(key)
        else:
            raise KeyError(key)

    def pop(self, key: Key, default: Any = _NONE) -> Any:
        """Removes and returns the state of a key."""
        state = self.get(key, _NONE)
        if state is not _NONE:
            del self[key]
        elif default is _NONE:
            raise KeyError(key)
        return default if state is _NONE else state

    def __len__(self) -> int:
        """The number of states, in memory and in the file."""
        return dict.__len__(self) + self._rows - len(self._stored) - len(self._ended)

    def __iter__(self) -> Iterator[Key]:
        """The keys of all states, in the order of the file."""
        self.flush()
        return (key_of(name) for name, _ in self._table.scan())

    def keys(self) -> Any:
        """The keys of all states, in the order of the file."""
        return iter(self)

    def items(self) -> Any:
        """All states, in the order of the file, which leaves each where it is."""
        self.flush()
        for name, row in self._table.scan():
            key = key_of(name)
            state = dict.get(self, key, _NONE)
            yield key, self._state_of(row) if state is _NONE else state

    # What the engine calls

    def update(self, pairs: Iterable[tuple[Key, Any]]) -> None:  # type: ignore[override]
        """Replaces states, for instance by a segment of the snapshot."""
        news = dict(pairs)
        out = [key for key in news if not dict.__contains__(self, key)]
        back = self._ended.intersection(out)
        self._ended -= back
        self._stored |= back
        if self._rows:
            asked = [key for key in out if key not in back]
            self._stored.update(key_of(name) for name in self._table.having(names_of(asked)))
        self._unsaved.update(news)
        dict.update(self, news)
        self._evict(0, dict.__len__(self))

    def having(self, keys: Iterable[Key]) -> list[Key]:
        """The keys that have a state, in order."""
        wanted = list(keys)
        out = [key for key in wanted if not dict.__contains__(self, key) and key not in self._ended] if self._rows else []
        there = {key_of(name) for name in self._table.having(names_of(out))}
        return [key for key in wanted if dict.__contains__(self, key) or key in there]

    def of(self, keys: Iterable[Key]) -> list[Any]:
        """The states of some keys, all of which have one. None enters memory to stay."""
        wanted = list(keys)
        out = [key for key in wanted if not dict.__contains__(self, key)]
        read = {key: self._state_of(row) for key, row in zip(out, self._read(out), strict=True) if row is not None}
        return [read[key] if key in read else dict.__getitem__(self, key) for key in wanted]

    def in_segment(self, segment: int, count: int) -> list[Key]:
        """The keys of a segment of a snapshot of `count` segments, in the order of the file."""
        self.flush()
        return [
            key_of(name) for part in parts_in(segment, count) for name, _ in self._table.scan(bytes([part]), bytes([part + 1]))
        ]

    def limit(self, room_bytes: int) -> None:
        """Replaces the limit of memory."""
        self._room_bytes, self._room = room_bytes, 0
        self._evict(0, dict.__len__(self))

    @property
    def memory_bytes(self) -> int:
        """The approximate size of what is in memory."""
        return dict.__len__(self) * self._bytes_of_one()

    def flush(self) -> None:
        """Writes to the file what is not in it.

        Raises:
            NotStored: A state cannot be stored.
        """
        self._write(self._unsaved)

    def _evict(self, spared: int, expected: int) -> None:
        """Removes the states that were used least recently, except the last `spared` ones.

        Args:
            spared: The number of states that stay.
            expected: The number of states that will be in memory.
        """
        self._absent = set()
        if expected <= self._room:
            return
        self._room = self._room_bytes // self._bytes_of_one()
        here = dict.__len__(self)
        surplus = min(expected - self._room, here - spared)
        if surplus <= 0:
            return
        leaving = list(islice(dict.__iter__(self), surplus))
        unsaved = [key for key in leaving if key in self._unsaved]
        try:
            self._write(unsaved)
        except NotStored:
            # A function may leave something else in it before it is saved, which otherwise raises.
            staying = {key for key in unsaved if not self._can_be_stored(key)}
            leaving = [key for key in leaving if key not in staying]
            self._write([key for key in unsaved if key not in staying])
        for key in leaving:
            dict.__delitem__(self, key)
        self._stored.difference_update(leaving)

    def _can_be_stored(self, key: Key) -> bool:
        try:
            return bool(self._row_of(key))
        except NotStored:
            return False

    def _write(self, keys: Collection[Key]) -> None:
        """Writes the states of keys in memory to the file, and removes from it what no longer has a state.

        Raises:
            NotStored: One cannot be stored; none is written.
        """
        if self._ended:
            self._table.delete(sorted(names_of(list(self._ended))))
            self._rows -= len(self._ended)
            self._ended = set()
        if keys:
            some = list(keys)
            rows = sorted(zip(names_of(some), map(self._row_of, some), strict=True))
            self._table.write(rows)
            self._rows += len(some) - len(self._stored.intersection(some))
            self._stored.update(some)
            self._unsaved.difference_update(some)

    def _row_of(self, key: Key) -> bytes:
        """The row of a state.

        Raises:
            NotStored: It cannot be stored.
        """
        state = dict.__getitem__(self, key)
        try:
            return _PICKLED + pickle.dumps(state, 5)
        except Exception:
            return _PACKED + self._class.pack([state])

    def _state_of(self, row: bytes) -> Any:
        if row[:1] == _PICKLED:
            return pickle.loads(memoryview(row)[1:])
        (state,) = self._class.unpack(row[1:])
        return state

    def _load(self, key: Key) -> Any:
        """Reads the state of a key that is not in memory; _NONE if it has none."""
        if not self._rows or key in self._absent or key in self._ended:
            return _NONE
        (row,) = self._read([key])
        return _NONE if row is None else self._put(key, row)

    def _put(self, key: Key, row: bytes) -> Any:
        state = self._state_of(row)
        dict.__setitem__(self, key, state)
        self._stored.add(key)
        return state

    def _read(self, keys: Sequence[Key]) -> list[bytes | None]:
        names = names_of(keys)
        return list(map(self._table.read(names).get, names))

    def _has_row(self, key: Key) -> bool:
        return bool(self._rows) and key not in self._absent and bool(self._table.having(names_of([key])))

    def _bytes_of_one(self) -> int:
        """The approximate size of a state in memory, with its key."""
        sample = list(islice(dict.items(self), _SAMPLE))
        if not sample:
            return _ENTRY_BYTES
        size = sum(getsizeof(key) + getsizeof(state) for key, state in sample)
        size += _FIELDS_BYTES * sum(type(state).__dictoffset__ != 0 for _, state in sample)
        # The row names the class, too, and so it is about as large as the objects that a state refers to.
        size += sum(len(self._row_of(key)) for key, _ in sample if self._can_be_stored(key))
        return _ENTRY_BYTES + size // len(sample)
