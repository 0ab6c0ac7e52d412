"""The cache of states in a Python worker between micro-batches, and how the worker validates it."""

import gc
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from sys import getsizeof

from headrace.engine.applications.states.durable import catch_up, load
from headrace.engine.applications.states.segments import DirtyKeys
from headrace.engine.applications.states.store import Head, Stored
from headrace.pipelines.runtime import StateClass, States

_SAMPLE = 64
"""The number of states of a step that are sampled to estimate the size of all."""
_FIELDS_BYTES = 120
"""The approximate size of the dict of an instance without slots."""
_ROUNDED_BYTES = 16
"""The approximate overhead of the memory allocator for a key and a state."""

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
        bytes: Their approximate size in memory.
    """

    kept: dict[str, States]
    dirty: DirtyKeys
    number: int
    token: bytes | None
    bytes: int = 0

    def mark_saved(self, head: Head) -> None:
        """Records that the states were saved."""
        self.number, self.token = head.number, head.token
        # The objects that fields refer to take at least as much as when stored, and rarely more than twice as much.
        self.bytes = sum(map(_shallow_bytes, self.kept.values())) + 2 * (head.snapshot_bytes + head.change_bytes)


def read_bucket(store: Stored, head: Head, classes: Mapping[str, StateClass], dropped: Collection[str]) -> Bucket:
    """Reads all states of a bucket. It is invalid until `Bucket.mark_saved`.

    Raises:
        StateError: Stored states do not match the classes or the steps of the pipeline.
    """
    dirty = DirtyKeys(len(head.segments))
    return Bucket(load(store, head, classes, dropped, dirty), dirty, head.number, None)


class StateCache:
    """A least-recently-used cache of buckets in one worker.

    Each query has a memory limit. The limit of the entire cache is the largest of these.
    """

    def __init__(self) -> None:
        self._buckets: OrderedDict[Name, Bucket] = OrderedDict()
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

        If it is not cached, or is too old, it is read from the store. It is assumed to be as large as the largest cached bucket;
        others are evicted to make room. The first time, what was read is excluded from further collections of garbage, which
        would examine each state.

        Raises:
            StateError: Stored states do not match the classes or the steps of the pipeline.
        """
        bucket = self._buckets.pop(name, None)
        if bucket is None or bucket.token is None or not head.reaches(bucket.number, bucket.token):
            bucket = None  # free it before it is read again
            self._evict(name[0], limit_bytes, max((held.bytes for held in self._buckets.values()), default=0))
            bucket = read_bucket(store, head, classes, dropped)
            if name not in self._read:
                # Not each time, should the bucket be evicted again and again: garbage of the task may be frozen too.
                self._read.add(name)
                gc.freeze()
            return bucket
        bucket.token = None
        if bucket.number < head.number:
            bucket.dirty.forget(head.segments, bucket.number)
            catch_up(store, head, bucket.number, bucket.kept, classes, dropped, bucket.dirty)
        return bucket

    def put(self, name: Name, bucket: Bucket, limit_bytes: int) -> None:
        """Caches a bucket for the next micro-batch, and evicts others above the limit."""
        self._buckets[name] = bucket
        self._buckets.move_to_end(name)
        # The states of other runs of the same query are no longer needed.
        for other in [other for other in self._buckets if other[0] == name[0] and other[1] != name[1]]:
            del self._buckets[other]
        self._read = {other for other in self._read if other[0] != name[0] or other[1] == name[1]}
        self._evict(name[0], limit_bytes)

    def _evict(self, query: str, limit_bytes: int, spare: int = 0) -> None:
        self._limits = {name[0]: self._limits[name[0]] for name in self._buckets if name[0] in self._limits}
        self._limits[query] = limit_bytes
        self._shrink([name for name in self._buckets if name[0] == query], limit_bytes - spare)
        self._shrink(list(self._buckets), max(self._limits.values()) - spare)

    def _shrink(self, names: Sequence[Name], limit_bytes: int) -> None:
        total = sum(self._buckets[name].bytes for name in names)
        for name in names:
            if total <= limit_bytes:
                return
            total -= self._buckets.pop(name).bytes


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
