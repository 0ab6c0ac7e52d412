"""What Spark's state store keeps for a bucket, and the head that says how to read it."""

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.pipelines.runtime import dumps_plain


class Readable(Protocol):
    """Pieces of a bucket's states, by number. Each call is a round trip to the JVM."""

    def read(self, number: int) -> bytes:
        """The piece that lies under a number."""


class Pieces(Readable, Protocol):
    """Pieces that can be replaced while the bucket's micro-batch runs."""

    def write(self, number: int, piece: bytes) -> None:
        """Keeps a piece under a number, in place of what was there."""

    def drop(self, numbers: Sequence[int]) -> None:
        """Forgets pieces."""


class Stored(Protocol):
    """What the store has for one bucket."""

    def read_head(self) -> bytes | None:
        """The head; None where the bucket is new."""

    @property
    def changes(self) -> Readable:
        """The changes that do not lie in the head."""

    @property
    def segments(self) -> Readable:
        """The snapshot."""


class Store(Stored, Protocol):
    """The store of a bucket whose micro-batch runs."""

    def write_head(self, head: bytes) -> None:
        """Replaces the head."""

    @property
    def changes(self) -> Pieces:
        """The changes that do not lie in the head."""

    @property
    def segments(self) -> Pieces:
        """The snapshot."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the snapshot: the states of the keys whose hash leads to it.

    Attributes:
        number: How many micro-batches are in it.
        bytes: Its size.
    """

    number: int
    bytes: int


@dataclass(frozen=True)
class Head:
    """What is read and written with every micro-batch.

    Attributes:
        number: How many micro-batches have left changes.
        tokens: The tokens of the last of them, the newest last.
        inline: The changes of the last of them, by number, as far as they lie here.
        outside: The sizes of the changes that lie in the store, by the number of the last micro-batch in each, in order.
        floor: Changes after this number are still there, so that copies which are only a little behind need no snapshot.
        segments: The snapshot's.
        owed: How many bytes of the snapshot are still to be written anew for changes that were made.
        beside: What a stage keeps beside the states, such as watermarks.
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
        """The newest token; empty where there is none."""
        return self.tokens[-1] if self.tokens else b""

    @property
    def oldest(self) -> int:
        """How many micro-batches are in all segments of the snapshot."""
        return min((segment.number for segment in self.segments), default=0)

    @property
    def snapshot_bytes(self) -> int:
        """The size of the snapshot."""
        return sum(segment.bytes for segment in self.segments)

    @property
    def change_bytes(self) -> int:
        """The size of the changes that some segment of the snapshot lacks."""
        oldest = self.oldest
        outside = sum(size for number, size in self.outside.items() if number > oldest)
        return outside + sum(len(change) for number, change in self.inline.items() if number > oldest)

    def reaches(self, number: int, token: bytes) -> bool:
        """Whether a copy that is at a number with a token needs only the changes since."""
        behind = self.number - number
        return 0 <= behind < len(self.tokens) and self.tokens[-1 - behind] == token and number >= self.floor


def read_head(store: Stored) -> Head:
    """The head of a bucket, which is an empty one where it is new."""
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
    """The changes after a number, in order; maybe some from before it, which are the same again."""
    for last in head.outside:
        if last > number:
            yield from pickle.loads(store.changes.read(last))
    for at, change in head.inline.items():
        if at > number:
            yield change


def keep_outside(store: Store, changes: Mapping[int, bytes]) -> tuple[int, int]:
    """Has the store keep changes of some micro-batches in a row; returns the last one's number, and their size."""
    last = max(changes)
    packed = dumps_plain(list(changes.values()))
    store.changes.write(last, packed)
    return last, len(packed)
