"""The content of Spark's state store for a bucket, and the head that describes it."""

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from headrace.pipelines.runtime import dumps_plain

MERGED = 8
"""The number of pieces of about the same size that are merged to one."""
TIER_BYTES = 16 * 2**10
"""The size of a piece of the first tier, in bytes."""
FINAL_BYTES = 2**20
"""The smallest size from which on a piece is no longer merged, in bytes."""
FINAL_SHARE = 64
"""The share of the snapshot from which on a piece is no longer merged, if that is larger."""


class Readable(Protocol):
    """Numbered pieces of a bucket's states. Each call is a round trip to the JVM."""

    def read(self, number: int) -> bytes:
        """The piece with a number."""


class Pieces(Readable, Protocol):
    """Pieces that can be replaced, while the bucket's micro-batch runs."""

    def write(self, number: int, piece: bytes) -> None:
        """Stores a piece under a number, replacing the one before."""

    def drop(self, numbers: Sequence[int]) -> None:
        """Removes pieces."""


class Stored(Protocol):
    """The stored content of one bucket."""

    def read_head(self) -> bytes | None:
        """The head; None if the bucket is new."""

    @property
    def changes(self) -> Readable:
        """The changes that are not in the head."""

    @property
    def segments(self) -> Readable:
        """The snapshot."""


class Store(Stored, Protocol):
    """The store of a bucket while its micro-batch runs."""

    def write_head(self, head: bytes) -> None:
        """Replaces the head."""

    def reset(self) -> None:
        """Forgets what the micro-batch has written."""

    @property
    def changes(self) -> Pieces:
        """The changes that are not in the head."""

    @property
    def segments(self) -> Pieces:
        """The snapshot."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the snapshot: the states of the keys whose hash belongs to it.

    Attributes:
        number: The number of micro-batches that it includes.
        bytes: Its size.
    """

    number: int
    bytes: int


@dataclass(frozen=True)
class Head:
    """What every micro-batch reads and writes.

    Attributes:
        number: The number of micro-batches that have written changes.
        tokens: The tokens of the last of them, the newest last.
        inline: The changes of the last of them that are stored in the head, by number.
        outside: The sizes of the changes that are stored outside, by the number of the last micro-batch in each, in order.
        floor: Changes after this number are kept, so that caches that are slightly out of date do not need the snapshot.
        segments: The segments of the snapshot.
        owed: The number of bytes of the snapshot that are still to be rewritten because of changes.
        beside: The values that a stage stores beside the states, such as watermarks.
    """

    number: int = 0
    tokens: tuple[bytes, ...] = ()
    inline: Mapping[int, bytes] = field(default_factory=dict)
    outside: Mapping[int, int] = field(default_factory=dict)
    floor: int = 0
    segments: tuple[Segment, ...] = ()
    owed: int = 0
    beside: Mapping[str, Any] = field(default_factory=dict)

    @property
    def token(self) -> bytes:
        """The newest token; empty if there is none."""
        return self.tokens[-1] if self.tokens else b""

    @property
    def oldest(self) -> int:
        """The number of micro-batches that all segments of the snapshot include."""
        return min((segment.number for segment in self.segments), default=0)

    @property
    def snapshot_bytes(self) -> int:
        """The size of the snapshot, in bytes."""
        return sum(segment.bytes for segment in self.segments)

    @property
    def change_bytes(self) -> int:
        """The size, in bytes, of the changes that are not in all segments of the snapshot."""
        oldest = self.oldest
        outside = sum(size for number, size in self.outside.items() if number > oldest)
        return outside + sum(len(change) for number, change in self.inline.items() if number > oldest)

    def reaches(self, number: int, token: bytes) -> bool:
        """Whether a copy with this number and token can be updated with the changes since."""
        behind = self.number - number
        return 0 <= behind < len(self.tokens) and self.tokens[-1 - behind] == token and number >= self.floor


def read_head(store: Stored) -> Head:
    """The head of a bucket; an empty one if the bucket is new."""
    packed = store.read_head()
    if packed is None:
        return Head()
    number, tokens, inline, outside, floor, segments, owed, beside = pickle.loads(packed)
    return Head(number, tokens, inline, outside, floor, tuple(Segment(*segment) for segment in segments), owed, beside)


def write_head(store: Store, head: Head) -> None:
    """Replaces the head."""
    segments = [(segment.number, segment.bytes) for segment in head.segments]
    document = (head.number, head.tokens, head.inline, head.outside, head.floor, segments, head.owed, head.beside)
    store.write_head(dumps_plain(document))


def changes_since(store: Stored, head: Head, number: int) -> Iterator[bytes]:
    """The changes after a number, in order. Some older ones may be included, which is harmless."""
    for last in head.outside:
        if last > number:
            yield from pickle.loads(store.changes.read(last))
    for at, change in head.inline.items():
        if at > number:
            yield change


def keep_outside(store: Store, head: Head, changes: Mapping[int, bytes]) -> Head:
    """Stores the changes of consecutive micro-batches outside the head, together with as many of the last pieces as are due."""
    outside, last, all_changes = dict(head.outside), max(changes), list(changes.values())
    sizes = [sum(map(len, all_changes)), *reversed(outside.values())]
    merged = sorted(outside)[len(outside) - (due(sizes, max(FINAL_BYTES, head.snapshot_bytes // FINAL_SHARE)) - 1) :]
    for number in reversed(merged):
        all_changes = [*pickle.loads(store.changes.read(number)), *all_changes]
        del outside[number]
    store.changes.drop(merged)
    packed = dumps_plain(all_changes)
    store.changes.write(last, packed)
    return replace(head, outside={**outside, last: len(packed)})


def due(sizes: Sequence[int], final_bytes: int) -> int:
    """How many pieces to merge, counted from the newest one, which is new; 1 for none.

    A file named in the manifest is a cost of every micro-batch, and so is a piece in the description of its bucket. So pieces
    are merged as in a log-structured merge tree: at each tier of sizes there are fewer than MERGED, and each byte is
    written at most once more for each tier. Pieces of a certain size are final, so that no micro-batch merges very large ones.

    Args:
        sizes: The sizes of the pieces, in bytes, the newest first.
        final_bytes: The size from which on a piece is final.
    """
    open_ = 1
    while open_ < len(sizes) and sizes[open_] < final_bytes:
        open_ += 1
    if sizes[0] >= final_bytes:
        # Nothing is left open before a piece that is final.
        return open_
    tiers = [_tier(size) for size in sizes[:open_]]
    for tier in range(max(tiers) + 1):
        run = next((place for place, found in enumerate(tiers) if found > tier), len(tiers))
        if run >= MERGED * (tier + 1):
            return run
    return 1


def _tier(size: int) -> int:
    """The tier of a piece: the pieces of each tier are MERGED times as large as the pieces of the tier before."""
    tier = 0
    while size >= TIER_BYTES * MERGED ** (tier + 1):
        tier += 1
    return tier
