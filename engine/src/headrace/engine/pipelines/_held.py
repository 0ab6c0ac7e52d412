"""The states that a Python worker holds between micro-batches, and how it finds out whether they are still right."""

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from sys import getsizeof

from headrace.engine.pipelines._durable import catch_up, load
from headrace.engine.pipelines._segments import Recent
from headrace.engine.pipelines._store import Head, Stored
from headrace.pipelines import StateError
from headrace.pipelines.runtime import StateClass, States, not_normal

_SAMPLE = 64
"""So many states of a step are looked at to tell what all of them take."""
_FIELDS_BYTES = 120
"""About what Python keeps for the fields of an instance without slots."""
_ROUNDED_BYTES = 16
"""What the memory allocator adds to a key and a state, about."""

Name = tuple[str, str, int, int]
"""Which bucket: the query, its run, how many shuffles lie before it, and its number."""


@dataclass
class Bucket:
    """The states of one bucket, as one worker holds them.

    Attributes:
        kept: The states of each step.
        recent: The keys that the snapshot's segments lack.
        number: How many micro-batches they hold.
        token: The token of the last of them; None while a micro-batch changes them, or has failed to.
        bytes: About how much memory they take.
    """

    kept: dict[str, States]
    recent: Recent
    number: int
    token: bytes | None
    bytes: int = 0

    def leave(self, head: Head) -> None:
        """Notes that the store has what the bucket holds."""
        self.number, self.token = head.number, head.token
        # What fields refer to takes no less than when it is stored, and hardly more than twice as much.
        self.bytes = sum(map(_shallow_bytes, self.kept.values())) + 2 * (head.snapshot_bytes + head.change_bytes)


class Held:
    """The buckets of one worker; those that were not used for the longest time go first.

    Each query has a limit of memory for its own, and all together have the largest of these.
    """

    def __init__(self) -> None:
        self._buckets: OrderedDict[Name, Bucket] = OrderedDict()
        self._limits: dict[str, int] = {}

    def take(
        self,
        name: Name,
        store: Stored,
        head: Head,
        classes: Mapping[str, StateClass],
        dropped: Collection[str],
        limit_bytes: int,
    ) -> Bucket:
        """The bucket as the store has it. Until `Bucket.leave` nobody trusts what it holds.

        One that must be read takes about as much memory as the largest that is held; others are let go of for it.

        Raises:
            StateError: stored states do not fit the classes, or the steps, that the pipeline has now.
        """
        bucket = self._buckets.pop(name, None)
        if bucket is None or bucket.token is None or not head.reaches(bucket.number, bucket.token):
            bucket = None  # so that there are never two of it
            self._let_go(name[0], limit_bytes, max((held.bytes for held in self._buckets.values()), default=0))
            recent = Recent(len(head.segments))
            return Bucket(_checked(load(store, head, classes, dropped, recent)), recent, head.number, None)
        bucket.token = None
        if bucket.number < head.number:
            bucket.recent.forget(head.segments, bucket.number)
            catch_up(store, head, bucket.number, bucket.kept, classes, dropped, bucket.recent)
        return bucket

    def give_back(self, name: Name, bucket: Bucket, limit_bytes: int) -> None:
        """Holds a bucket for the next micro-batch, and lets go of others where that is too much."""
        self._buckets[name] = bucket
        self._buckets.move_to_end(name)
        # The states of another run of the same query are never asked for again.
        for other in [other for other in self._buckets if other[0] == name[0] and other[1] != name[1]]:
            del self._buckets[other]
        self._let_go(name[0], limit_bytes)

    def _let_go(self, query: str, limit_bytes: int, spare: int = 0) -> None:
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


def _checked(kept: dict[str, States]) -> dict[str, States]:
    """States that were stored, if all lie where their keys lead to now.

    Raises:
        StateError: an older version has keyed some otherwise.
    """
    for step, states in kept.items():
        if odd := not_normal(states):
            raise StateError(
                f"step {step}: the checkpoint has a state for {odd[0]!r}, which is no key now, or the same one as another; "
                "make a new checkpoint of it, which has the keys of now: headrace state rescale"
            )
    return kept


def _shallow_bytes(states: States) -> int:
    """About what the keys and states of a step take, without what the states refer to."""
    sample = list(islice(states.items(), _SAMPLE))
    if not sample:
        return 0
    looked_at = sum(getsizeof(key) + getsizeof(state) + _ROUNDED_BYTES for key, state in sample)
    looked_at += _FIELDS_BYTES * sum(type(state).__dictoffset__ != 0 for _, state in sample)
    return getsizeof(states) + looked_at * len(states) // len(sample)


HELD = Held()
"""Spark's worker processes live on from task to task, and so does what they hold."""
