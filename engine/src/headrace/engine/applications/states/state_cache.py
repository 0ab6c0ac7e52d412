"""The cache of states in a Python worker between micro-batches, and how the worker validates it."""

import gc
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from sys import getsizeof

from headrace.engine.applications.states.durable import catch_up, load_into
from headrace.engine.applications.states.segments import SEGMENT_KEYS, DirtyKeys
from headrace.engine.applications.states.spill_file import SpillFile, local_folder
from headrace.engine.applications.states.spilled_states import SpilledStates
from headrace.engine.applications.states.store import Head, Stored
from headrace.pipelines.runtime import StateClass, States

_SAMPLE = 64
"""The number of states of a step that are sampled to estimate the size of all."""
_FIELDS_BYTES = 120
"""The approximate size of the dict of an instance without slots."""
_ROUNDED_BYTES = 16
"""The approximate overhead of the memory allocator for a key and a state."""

LARGER = 12
"""How many times as large small states are in memory than when stored, about, with their keys."""

Name = tuple[str, str, int, int]
"""Identifies a bucket: the query, its run, the number of shuffles before it, and the bucket's id."""


@dataclass
class Bucket:
    """The states of one bucket in a worker.

    Attributes:
        kept: The states of each step.
        dirty: The keys that have changed since their segment of the snapshot was written.
        number: The number of micro-batches that they include.
        token: The token of the last of them; None while a micro-batch changes them, or after it has failed.
        classes: The class of the states of each step.
        file: The file with the states that are not in memory; None while all are.
        bytes: The approximate size of what is in memory.
    """

    kept: dict[str, States]
    dirty: DirtyKeys
    number: int
    token: bytes | None
    classes: Mapping[str, StateClass]
    file: SpillFile | None = None
    bytes: int = 0

    def mark_saved(self, head: Head) -> None:
        """Records that the states were saved."""
        self.number, self.token = head.number, head.token
        here = [states.memory_bytes for states in self.kept.values() if isinstance(states, SpilledStates)]
        plain = [states for states in self.kept.values() if not isinstance(states, SpilledStates)]
        # The objects that fields refer to take at least as much as when stored, and rarely more than twice as much.
        stored = 2 * (head.snapshot_bytes + head.change_bytes) if len(plain) == len(self.kept) else 0
        self.bytes = sum(map(_shallow_bytes, plain)) + stored + sum(here)

    def limit(self, room_bytes: int) -> None:
        """Keeps in memory what has room, and the other states in a file.

        Raises:
            SpillError: The file cannot be written.
        """
        if self.file is None:
            if self.bytes <= room_bytes:
                return
            self._spill(room_bytes)
        for states in self.kept.values():
            if isinstance(states, SpilledStates):
                states.limit(room_bytes // len(self.kept))
        self.bytes = min(self.bytes, room_bytes)

    def _spill(self, room_bytes: int) -> None:
        self.file = SpillFile(local_folder())
        for step, states in self.kept.items():
            self.kept[step] = spilled = SpilledStates(self.file, self.classes[step], room_bytes // len(self.kept))
            keys = list(states)
            for at in range(0, len(keys), SEGMENT_KEYS):
                spilled.update((key, states.pop(key)) for key in keys[at : at + SEGMENT_KEYS])
            self.dirty.omit(step)


def read_bucket(
    store: Stored,
    head: Head,
    classes: Mapping[str, StateClass],
    dropped: Collection[str],
    room_bytes: int | None = None,
) -> Bucket:
    """Reads all states of a bucket. It is invalid until `Bucket.mark_saved`.

    Args:
        store: The stored content of the bucket.
        head: Its head.
        classes: The class of the states of each step.
        dropped: The steps whose states are not read.
        room_bytes: The memory for its states, in bytes; None for all of them, whatever their size.

    Raises:
        StateError: Stored states do not match the classes or the steps of the pipeline.
        SpillError: There are states for which there is no room, and they cannot be kept on the disk.
    """
    bucket = Bucket({step: States() for step in classes}, DirtyKeys(len(head.segments)), head.number, None, classes)
    if room_bytes is not None:
        bucket.bytes = LARGER * (head.snapshot_bytes + head.change_bytes)
        bucket.limit(room_bytes)
    load_into(bucket.kept, store, head, classes, dropped, bucket.dirty)
    return bucket


class StateCache:
    """The buckets of one worker.

    Each query has a memory limit. The limit of the entire cache is the largest of these. Above it, the states of the largest
    buckets that were used least recently are in files.
    """

    def __init__(self) -> None:
        self._buckets: dict[Name, Bucket] = {}
        self._limits: dict[str, int] = {}
        self._read: set[Name] = set()
        """The buckets that this worker has read."""

    def take(
        self,
        name: Name,
        store: Stored,
        head: Head,
        classes: Mapping[str, StateClass],
        dropped: Collection[str],
        limit_bytes: int,
    ) -> Bucket:
        """Removes a bucket from the cache, and returns it in the state of the store. It is invalid until `Bucket.mark_saved`.

        If it is not cached, or is too old, it is read from the store, for which others make room. The first time, what was read
        is excluded from further collections of garbage, which would examine each state.

        Raises:
            StateError: Stored states do not match the classes or the steps of the pipeline.
            SpillError: There are states for which there is no room, and they cannot be kept on the disk.
        """
        bucket = self._buckets.pop(name, None)
        if bucket is None or bucket.token is None or not head.reaches(bucket.number, bucket.token):
            bucket = None  # free it before it is read again
            return self.read(name, store, head, classes, dropped, limit_bytes)
        bucket.token = None
        if bucket.number < head.number:
            bucket.dirty.forget(head.segments, bucket.number)
            catch_up(store, head, bucket.number, bucket.kept, classes, dropped, bucket.dirty)
        return bucket

    def read(
        self,
        name: Name,
        store: Stored,
        head: Head,
        classes: Mapping[str, StateClass],
        dropped: Collection[str],
        limit_bytes: int,
    ) -> Bucket:
        """Reads a bucket from the store; see `take`."""
        room = self._fit(name[0], limit_bytes, LARGER * (head.snapshot_bytes + head.change_bytes))
        bucket = read_bucket(store, head, classes, dropped, room)
        if name not in self._read:
            # Not each time, should the bucket be read again and again: garbage of the task may be frozen too.
            self._read.add(name)
            gc.freeze()
        return bucket

    def put(self, name: Name, bucket: Bucket, limit_bytes: int) -> None:
        """Caches a bucket for the next micro-batch, and writes states above the limit to files.

        Raises:
            SpillError: They cannot be written.
        """
        self._buckets[name] = bucket
        # The states of other runs of the same query are no longer needed.
        for other in [other for other in self._buckets if other[0] == name[0] and other[1] != name[1]]:
            del self._buckets[other]
        self._read = {other for other in self._read if other[0] != name[0] or other[1] == name[1]}
        self._fit(name[0], limit_bytes)

    @property
    def memory_bytes(self) -> int:
        """The approximate size of what is in memory."""
        return sum(bucket.bytes for bucket in self._buckets.values())

    def _fit(self, query: str, limit_bytes: int, spare: int = 0) -> int:
        """Has all buckets, and another one of a size, fit into the limits; returns the size for which there is room."""
        self._limits = {name[0]: self._limits[name[0]] for name in self._buckets if name[0] in self._limits}
        self._limits[query] = limit_bytes
        room = self._shrink([each for name, each in self._buckets.items() if name[0] == query], limit_bytes, spare)
        return min(room, self._shrink(list(self._buckets.values()), max(self._limits.values()), spare))

    def _shrink(self, buckets: Sequence[Bucket], limit_bytes: int, spare: int) -> int:
        room = room_of_each([spare, *(bucket.bytes for bucket in buckets)], limit_bytes)
        for bucket in buckets:
            bucket.limit(room)
        return room


def room_of_each(sizes: Sequence[int], limit: int) -> int:
    """The size to which larger ones must shrink so that all together are within a limit, or to which one of them may grow."""
    left, largest = max(limit, 0), 0
    for number, largest in enumerate(ordered := sorted(sizes)):
        share = left // (len(ordered) - number)
        if largest > share:
            return share
        left -= largest
    return largest + left


def _shallow_bytes(states: States) -> int:
    """The approximate size of the keys and states of a step, without the objects that states refer to."""
    sample = list(islice(states.items(), _SAMPLE))
    if not sample:
        return 0
    looked_at = sum(getsizeof(key) + getsizeof(state) + _ROUNDED_BYTES for key, state in sample)
    looked_at += _FIELDS_BYTES * sum(type(state).__dictoffset__ != 0 for _, state in sample)
    return getsizeof(states) + looked_at * len(states) // len(sample)


STATE_CACHE = StateCache()
"""The cache of this process. Spark's workers run many tasks, so it lives across tasks."""
