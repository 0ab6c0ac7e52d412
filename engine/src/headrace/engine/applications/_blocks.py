"""Blocks: many elements as one value of a Spark row, so that Spark shuffles and sorts a few hundred rows, not a million.

Only this module writes and reads blocks. A block exists between two stages of a micro-batch. It contains either raw messages,
which are decoded after the shuffle, or values that steps have computed.
"""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.pipelines.runtime import Column, Elements, Key, Origin, Rows, Times

_Numbers = npt.NDArray[np.int64]
_NULL = -1
"""The length of a value that is null."""


class Packed(Column):
    """A column of bytes: the concatenated values, and the length of each, -1 for null."""

    def __init__(self, data: bytes, lengths: npt.NDArray[np.int32]) -> None:
        self.data = data
        self.lengths = lengths

    @classmethod
    def of(cls, array: pa.Array) -> "Packed":
        """The column of an Arrow array of binary or string."""
        if array.null_count == len(array):
            return cls(b"", np.full(len(array), _NULL, np.int32))
        _, ends, data = array.buffers()
        wide = array.type in (pa.large_binary(), pa.large_string())
        offsets = np.frombuffer(ends, np.int64 if wide else np.int32, len(array) + 1, array.offset * (8 if wide else 4))
        lengths = np.diff(offsets).astype(np.int32)
        if array.null_count:
            lengths = np.where(np.asarray(array.is_null()), np.int32(_NULL), lengths)
        joined = data[offsets[0] : offsets[-1]].to_pybytes() if data is not None else b""
        return cls(joined, lengths)

    @classmethod
    def of_values(cls, values: Sequence[bytes | None]) -> "Packed":
        """The column of a sequence of values."""
        if isinstance(values, cls):
            return values
        if isinstance(values, Column):
            return cls.of(values.array())
        if None in values:
            lengths = np.array([_NULL if value is None else len(value) for value in values], np.int32)
            return cls(b"".join([value for value in values if value is not None]), lengths)
        there = cast(Sequence[bytes], values)
        return cls(b"".join(there), np.fromiter(map(len, there), np.int32, len(there)))

    @classmethod
    def nulls(cls, count: int) -> "Packed":
        """A column of nulls."""
        return cls(b"", np.full(count, _NULL, np.int32))

    def array(self) -> pa.Array:
        """The column as an Arrow array."""
        nulls = self.lengths == _NULL
        validity = pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None
        offsets = np.zeros(len(self.lengths) + 1, np.int64)
        np.cumsum(np.maximum(self.lengths, 0), out=offsets[1:])
        small = offsets[-1] < 2**31
        buffers = [validity, pa.py_buffer(offsets.astype(np.int32) if small else offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.binary() if small else pa.large_binary(), len(self.lengths), buffers)

    def without_nulls(self) -> "Packed":
        """The column with empty values instead of nulls."""
        nulls = self.lengths == _NULL
        return Packed(self.data, np.where(nulls, np.int32(0), self.lengths)) if nulls.any() else self

    def take(self, indices: _Numbers) -> "Packed":
        """The values at these indices."""
        lengths = self.lengths
        fixed = _fixed(lengths)
        if fixed:
            return Packed(np.frombuffer(self.data, f"V{fixed}")[indices].tobytes(), lengths[indices])
        sizes = np.maximum(lengths, 0).astype(np.int64)
        starts = np.cumsum(sizes) - sizes
        taken = sizes[indices]
        ends = np.cumsum(taken)
        # For each byte of the result: the start of its value in the data, and its offset in the value.
        within = np.arange(int(ends[-1]) if len(ends) else 0, dtype=np.int64) - np.repeat(ends - taken, taken)
        data = np.frombuffer(self.data, np.uint8)[np.repeat(starts[indices], taken) + within]
        return Packed(data.tobytes(), lengths[indices])

    @cached_property
    def made(self) -> Sequence[Any]:
        """The values as a list."""
        fixed = _fixed(self.lengths)
        if fixed:
            pieces: list[Any] = np.frombuffer(self.data, f"V{fixed}").tolist()
            return pieces
        sizes = np.maximum(self.lengths, 0)
        ends = np.cumsum(sizes, dtype=np.int64)
        data = self.data
        found: list[Any] = [data[a:b] for a, b in zip((ends - sizes).tolist(), ends.tolist(), strict=True)]
        for index in np.flatnonzero(self.lengths == _NULL).tolist():
            found[index] = None
        return found

    def __len__(self) -> int:
        """The number of values."""
        return len(self.lengths)


@dataclass(frozen=True, slots=True)
class Messages:
    """Raw messages of one stream.

    Attributes:
        sequences: Their sequences.
        keys: Their own keys.
        values: Their payloads.
        times: Their event times, in microseconds since 1970; None if no step needs them.
        ids: Their ids; None if no step needs them.
    """

    sequences: _Numbers
    keys: Packed
    values: Packed
    times: Times | None = None
    ids: Packed | None = None

    def take(self, indices: _Numbers) -> "Messages":
        """The messages at these indices."""
        return Messages(
            self.sequences[indices],
            self.keys.take(indices),
            self.values.take(indices),
            None if self.times is None else self.times[indices],
            None if self.ids is None else self.ids.take(indices),
        )

    @classmethod
    def of_origin(cls, origin: Origin, *, payloads: bool) -> "Messages":
        """The messages that elements come from; without payloads if no step needs them any more."""
        count = len(origin)
        keys = Packed.nulls(count) if origin.keys is None else Packed.of_values(origin.keys)
        values = Packed.of_values(origin.raw) if payloads and origin.raw is not None else Packed.nulls(count)
        ids = None
        if origin.ids is not None:
            ids = Packed.of_values([None if text is None else text.encode() for text in origin.ids])
        return cls(origin.sequences, keys, values, origin.times, ids)

    def without_payloads(self) -> "Messages":
        """The same messages without payloads, for elements that are not decoded again."""
        return replace(self, values=Packed.nulls(len(self.sequences)))

    def origin(self, stream: str) -> Origin:
        """The messages as the origin of elements."""
        ids = None if self.ids is None else [None if i is None else i.decode() for i in self.ids]
        return Origin(stream, self.sequences, self.values, self.keys, self.times, ids)


@dataclass(frozen=True, slots=True)
class Block:
    """Elements to be shuffled.

    Attributes:
        messages: The messages that they come from.
        decoded_by: The source that decodes `messages` to the values again, one for each; None if `values` has them.
        values: The values, if they are not decoded again.
        at: The index in `messages` of each; None if each message has one element.
        keys: The key of each; None if it is the message's key.
        times: The event time of each; None if no step needs times, or they are those of the messages.
        marks: The watermark of each.
    """

    messages: Messages
    decoded_by: int | None
    values: Sequence[Any] | None = None
    at: Sequence[int] | None = None
    keys: Sequence[Key] | None = None
    times: Times | None = None
    marks: Times | None = None

    @property
    def first(self) -> int:
        """The sequence of the first of the messages."""
        return int(self.messages.sequences[0])

    @property
    def last(self) -> int:
        """The sequence of the last of the messages."""
        return int(self.messages.sequences[-1])

    def pack(self) -> bytes:
        """The bytes for a row."""
        m = self.messages
        columns = (m.sequences, m.keys.data, m.keys.lengths, m.values.data, m.values.lengths, m.times)
        ids = None if m.ids is None else (m.ids.data, m.ids.lengths)
        return pickle.dumps((columns, ids, self.decoded_by, self.values, self.at, self.keys, self.times, self.marks), 5)

    @classmethod
    def unpack(cls, packed: bytes) -> "Block":
        """The block from a row's bytes."""
        columns, ids, decoded_by, values, at, keys, times, marks = pickle.loads(packed)
        sequences, key_data, key_lengths, value_data, value_lengths, message_times = columns
        messages = Messages(
            sequences,
            Packed(key_data, key_lengths),
            Packed(value_data, value_lengths),
            message_times,
            None if ids is None else Packed(*ids),
        )
        return cls(messages, decoded_by, values, at, keys, times, marks)

    def elements(self, stream: str) -> Elements:
        """The elements with their keys, for the steps after the shuffle."""
        origin = self.messages.origin(stream)
        keys = self.messages.keys.without_nulls() if self.keys is None else self.keys
        times = self.times
        if times is None and origin.times is not None:
            times = origin.times if self.at is None else origin.times[np.asarray(self.at, np.int64)]
        values = self.values if self.values is not None else origin.raw or ()
        return Elements(values, origin, self.at, keys, times, self.marks, self.decoded_by)


def blocks_by_bucket(block: Block, buckets: npt.NDArray[np.int32], count: int) -> list[tuple[int, Block]]:
    """Divides a block by bucket, with the elements in the same order. Buckets without elements are omitted."""
    if count == 1:
        return [(0, block)]
    order = np.argsort(buckets.astype(np.uint8 if count <= 256 else np.int32), kind="stable")
    ends = np.searchsorted(buckets[order], np.arange(count), side="right")
    parts = []
    start = 0
    for bucket, end in enumerate(ends.tolist()):
        if end > start:
            parts.append((bucket, _part(block, order[start:end])))
        start = end
    return parts


def _part(block: Block, indices: _Numbers) -> Block:
    places = indices if block.at is None else np.asarray(block.at, np.int64)[indices]
    chosen = indices.tolist()
    part = replace(
        block,
        keys=None if block.keys is None else [block.keys[i] for i in chosen],
        times=None if block.times is None else block.times[indices],
        marks=None if block.marks is None else block.marks[indices],
    )
    if block.values is None:
        return replace(part, messages=block.messages.take(places), at=None)
    used, at = np.unique(places, return_inverse=True)
    values = block.values.take(chosen) if isinstance(block.values, Rows) else [block.values[i] for i in chosen]
    return replace(part, messages=block.messages.take(used), values=values, at=at.tolist())


def _fixed(lengths: npt.NDArray[np.int32]) -> int:
    """The common length of all values, if it is the same and not 0; else 0."""
    if not len(lengths):
        return 0
    first = int(lengths[0])
    return first if first > 0 and bool((lengths == first).all()) else 0
