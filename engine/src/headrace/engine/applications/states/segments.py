"""A snapshot in segments that are rewritten independently of each other.

A key's hash determines its segment. When there are more keys than fit, a segment is added: one of the existing ones is split, the
next one in a fixed order, so that the number of segments determines the segment of each key (W. Litwin, Linear Hashing, 1980).
"""

import pickle
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import blake2b

from headrace.engine.applications.states.keys import in_order_of_hashes, segments_of
from headrace.engine.applications.states.spilled_states import SpilledStates
from headrace.engine.applications.states.store import Segment, Store
from headrace.pipelines.runtime import Key, NotStored, StateClass, States, dumps_plain, in_order_of_keys

SEGMENT_KEYS = 16_384
"""The maximum of the average number of keys in a segment, while there are fewer than MAX_SEGMENTS."""
MAX_SEGMENTS = 64
"""The most segments of a snapshot. Each is rewritten at another time, and so it is in a file of its own."""

TOKEN_BYTES = 8

PackedStates = tuple[list[Key], bytes, list[Key]]
"""Keys, their states, and the keys whose states were removed."""


class DirtyKeys:
    """The keys that have changed since their segment was written, by segment and step. A key may be listed more than once.

    Keys of steps whose states are also in a file are not listed: there, a segment's keys are together.
    """

    def __init__(self, segments: int = 0) -> None:
        self._keys: list[defaultdict[str, list[Key]]] = [defaultdict(list) for _ in range(segments)]
        self._omitted: set[str] = set()

    def omit(self, step: str) -> None:
        """No longer lists the keys of a step."""
        self._omitted.add(step)
        for by_step in self._keys:
            by_step.pop(step, None)

    def note(self, step: str, keys: Sequence[Key]) -> None:
        """Records that states of a step have changed."""
        if self._keys and keys and step not in self._omitted:
            for key, segment in zip(keys, segments_of(keys, len(self._keys)), strict=True):
                self._keys[segment][step].append(key)

    def take(self, segment: int) -> Mapping[str, list[Key]]:
        """Removes and returns the keys of a segment that is to be rewritten."""
        found, self._keys[segment] = self._keys[segment], defaultdict(list)
        return found

    def grow(self) -> None:
        """Adds a segment."""
        self._keys.append(defaultdict(list))

    def forget(self, segments: Sequence[Segment], number: int) -> None:
        """Forgets the keys of segments that another worker has written since micro-batch `number`."""
        known = self._keys
        self._keys = [
            known[place] if place < len(known) and segment.number <= number else defaultdict(list)
            for place, segment in enumerate(segments)
        ]


class Snapshot:
    """The snapshot of a bucket while it is written.

    Attributes:
        segments: Its segments.
        digest: The hash of all segments that were written.
    """

    def __init__(
        self,
        store: Store,
        segments: Sequence[Segment],
        states: Mapping[str, States],
        dirty: DirtyKeys,
        classes: Mapping[str, StateClass],
        number: int,
    ) -> None:
        """Prepares to write the states after micro-batch `number`."""
        self._store, self._states, self._dirty, self._classes, self._number = store, states, dirty, classes, number
        self.segments = list(segments)
        self.digest = blake2b(digest_size=TOKEN_BYTES)

    def write_all(self, changed: Mapping[str, Collection[Key]]) -> None:
        """Writes all states, in as many segments as necessary, changed states first.

        Raises:
            StateError: A state cannot be stored. The other writing methods raise it too.
        """
        before = len(self.segments)
        count = min(max(1, -(-sum(map(len, self._states.values())) // SEGMENT_KEYS)), MAX_SEGMENTS)
        self.segments = [Segment(0, 0)] * count
        self._dirty.forget(self.segments, -1)
        divided = {step: _divided(states, changed.get(step, ()), count) for step, states in self._states.items()}
        for segment in range(count):
            self._write(segment, {step: next(parts) for step, parts in divided.items()})
        self._store.segments.drop(range(count, before))

    def write_oldest(self) -> int:
        """Rewrites the segment that is the most out of date; returns its size in bytes."""
        oldest = min(range(len(self.segments)), key=lambda place: self.segments[place].number)
        self._write(oldest, self._keys_of(oldest))
        return self.segments[oldest].bytes

    def split_where_full(self) -> int:
        """Splits segments until there are as many as necessary; returns the number of bytes written."""
        written = 0
        while len(self.segments) < MAX_SEGMENTS and sum(map(len, self._states.values())) > SEGMENT_KEYS * len(self.segments):
            new = len(self.segments)
            old = new - (1 << new.bit_length() - 1)
            keys = self._keys_of(old)
            self.segments.append(Segment(0, 0))
            self._dirty.grow()
            divided = {step: divide(some, new + 1) for step, some in keys.items()}
            for segment in (old, new):
                self._write(segment, {step: parts.get(segment, []) for step, parts in divided.items()})
                written += self.segments[segment].bytes
        return written

    def _keys_of(self, segment: int) -> dict[str, list[Key]]:
        """The keys of a segment that have a state, by step: the keys that it contained, and the keys added since."""
        document: dict[str, PackedStates] = pickle.loads(self._store.segments.read(segment))
        dirty = self._dirty.take(segment)
        found = {}
        for step, states in self._states.items():
            there = document[step][0] if step in document else []
            if isinstance(states, SpilledStates):
                present = set(states.in_segment(segment, len(self.segments)))
                found[step] = [*[key for key in there if key in present], *in_order_of_keys(present.difference(there))]
                continue
            # After a reload, more keys may be dirty than in a worker that has cached the bucket all the time.
            new = in_order_of_keys({key for key in dirty.get(step, ()) if key in states}.difference(there))
            found[step] = [*[key for key in there if key in states], *new]
        return found

    def _write(self, segment: int, keys: Mapping[str, list[Key]]) -> None:
        document = {step: _there(self._states[step], some, self._classes[step]) for step, some in keys.items() if some}
        packed = dumps_plain(document)
        self.digest.update(packed)
        self._store.segments.write(segment, packed)
        self.segments[segment] = Segment(self._number, len(packed))


def divide(keys: list[Key], segments: int) -> dict[int, list[Key]]:
    """The keys by segment."""
    if segments == 1:
        return {0: keys}
    divided: defaultdict[int, list[Key]] = defaultdict(list)
    for key, segment in zip(keys, segments_of(keys, segments), strict=True):
        divided[segment].append(key)
    return divided


def of_keys(states: States, keys: Collection[Key], state_class: StateClass) -> PackedStates:
    """The states of some keys of a step.

    Raises:
        StateError: A state cannot be stored.
    """
    there = states.having(keys)
    present = set(there) if len(there) < len(keys) else set()
    gone = [key for key in keys if key not in present] if len(there) < len(keys) else []
    return there, _packed(states, there, state_class), gone


def whole(bucket_states: Mapping[str, States], classes: Mapping[str, StateClass]) -> Iterator[bytes]:
    """All states, in pieces of the size of a segment.

    Raises:
        StateError: A state cannot be stored.
    """
    for step, states in bucket_states.items():
        keys = list(states)
        for at in range(0, len(keys), SEGMENT_KEYS):
            yield dumps_plain({step: _there(states, keys[at : at + SEGMENT_KEYS], classes[step])})


def _divided(states: States, changed: Collection[Key], count: int) -> Iterator[list[Key]]:
    """The keys of the states of each of `count` segments, in the same order in every worker."""
    if isinstance(states, SpilledStates):
        news = divide(list(changed), count)
        for segment in range(count):
            present = dict.fromkeys(states.in_segment(segment, count))
            first = dict.fromkeys(key for key in news.get(segment, ()) if key in present)
            yield [*first, *in_order_of_hashes([key for key in present if key not in first])]
        return
    divided = divide(_ordered(states, changed), count)
    yield from (divided.get(segment, []) for segment in range(count))


def _ordered(states: States, changed: Collection[Key]) -> list[Key]:
    """The keys of the states, in the same order in every worker."""
    first = [key for key in changed if key in states]
    if len(first) == len(states):
        return first
    return first + in_order_of_hashes([key for key in states if key not in changed])


def _there(states: States, keys: list[Key], state_class: StateClass) -> PackedStates:
    """The states of keys, all of which have one."""
    return keys, _packed(states, keys, state_class), []


def _packed(states: States, keys: Sequence[Key], state_class: StateClass) -> bytes:
    """The states of keys.

    Raises:
        NotStored: A state cannot be stored; the error names its key.
    """
    try:
        return state_class.pack(states.of(keys))
    except NotStored:
        for key in keys:
            try:
                state_class.pack(states.of([key]))
            except NotStored as error:
                raise NotStored(error.step, error.reason, key) from error
        raise
