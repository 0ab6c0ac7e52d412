"""Blocks: many elements as one value of a Spark row, so that Spark shuffles and sorts a few hundred rows, not a million.

A block is made and read by this module alone, and lives between two stages of a micro-batch. It holds either messages, packed as
they came, which are decoded behind the shuffle, or the values that steps have made of them.
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
    """A column of bytes: all values joined, and the length of each, -1 for null."""

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
        """The column of values, one by one."""
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
        """A column of nothing."""
        return cls(b"", np.full(count, _NULL, np.int32))

    def array(self) -> pa.Array:
        """The column in Arrow."""
        nulls = self.lengths == _NULL
        validity = pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None
        offsets = np.zeros(len(self.lengths) + 1, np.int64)
        np.cumsum(np.maximum(self.lengths, 0), out=offsets[1:])
        small = offsets[-1] < 2**31
        buffers = [validity, pa.py_buffer(offsets.astype(np.int32) if small else offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.binary() if small else pa.large_binary(), len(self.lengths), buffers)

    def without_nulls(self) -> "Packed":
        """The column with nothing in the place of null."""
        nulls = self.lengths == _NULL
        return Packed(self.data, np.where(nulls, np.int32(0), self.lengths)) if nulls.any() else self

    def take(self, indices: _Numbers) -> "Packed":
        """Some of the values."""
        lengths = self.lengths
        fixed = _fixed(lengths)
        if fixed:
            return Packed(np.frombuffer(self.data, f"V{fixed}")[indices].tobytes(), lengths[indices])
        sizes = np.maximum(lengths, 0).astype(np.int64)
        starts = np.cumsum(sizes) - sizes
        taken = sizes[indices]
        ends = np.cumsum(taken)
        # Of each byte taken: where its value begins here, and how far into the value it is.
        within = np.arange(int(ends[-1]) if len(ends) else 0, dtype=np.int64) - np.repeat(ends - taken, taken)
        data = np.frombuffer(self.data, np.uint8)[np.repeat(starts[indices], taken) + within]
        return Packed(data.tobytes(), lengths[indices])

    @cached_property
    def made(self) -> Sequence[Any]:
        """The values, one by one."""
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
    """Messages of one stream as they came.

    Attributes:
        sequences: Their sequences.
        keys: Their own keys.
        values: Their payloads.
        times: Their event times; None where no step asks for them.
        ids: Their ids; None where no step asks for them.
    """

    sequences: _Numbers
    keys: Packed
    values: Packed
    times: Times | None = None
    ids: Packed | None = None

    def take(self, indices: _Numbers) -> "Messages":
        """Some of the messages."""
        return Messages(
            self.sequences[indices],
            self.keys.take(indices),
            self.values.take(indices),
            None if self.times is None else self.times[indices],
            None if self.ids is None else self.ids.take(indices),
        )

    @classmethod
    def of_origin(cls, origin: Origin, *, payloads: bool) -> "Messages":
        """Messages that elements come from; without their payloads where nothing needs them any more."""
        count = len(origin)
        keys = Packed.nulls(count) if origin.keys is None else Packed.of_values(origin.keys)
        values = Packed.of_values(origin.raw) if payloads and origin.raw is not None else Packed.nulls(count)
        ids = None
        if origin.ids is not None:
            ids = Packed.of_values([None if text is None else text.encode() for text in origin.ids])
        return cls(origin.sequences, keys, values, origin.times, ids)

    def without_payloads(self) -> "Messages":
        """The same, for elements that are not decoded again."""
        return replace(self, values=Packed.nulls(len(self.sequences)))

    def origin(self, stream: str) -> Origin:
        """The messages, as elements come from them."""
        ids = None if self.ids is None else [None if i is None else i.decode() for i in self.ids]
        return Origin(stream, self.sequences, self.values, self.keys, self.times, ids)


@dataclass(frozen=True, slots=True)
class Block:
    """Elements that go through a shuffle.

    Attributes:
        messages: The messages that they come from.
        decoded_by: The source that decodes `messages` into the values again, one for each; None where `values` has them.
        values: The values, where they cannot be decoded again.
        at: The place in `messages` of each; None where each message has one element.
        keys: What each is keyed by; None where that is the message's own key.
        times: The event time of each; None where no step asks for times, or the messages' are meant.
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
        """The bytes that go into a row."""
        m = self.messages
        columns = (m.sequences, m.keys.data, m.keys.lengths, m.values.data, m.values.lengths, m.times)
        ids = None if m.ids is None else (m.ids.data, m.ids.lengths)
        return pickle.dumps((columns, ids, self.decoded_by, self.values, self.at, self.keys, self.times, self.marks), 5)

    @classmethod
    def unpack(cls, packed: bytes) -> "Block":
        """The block of a row's bytes."""
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
        """The elements, keyed, as they enter the steps behind the shuffle."""
        origin = self.messages.origin(stream)
        keys = self.messages.keys.without_nulls() if self.keys is None else self.keys
        times = self.times
        if times is None and origin.times is not None:
            times = origin.times if self.at is None else origin.times[np.asarray(self.at, np.int64)]
        values = self.values if self.values is not None else origin.raw or ()
        return Elements(values, origin, self.at, keys, times, self.marks, self.decoded_by)


def blocks_by_bucket(block: Block, buckets: npt.NDArray[np.int32], count: int) -> list[tuple[int, Block]]:
    """A block for each bucket that has elements, in which they keep their order."""
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
    """The length that all values have, if they have one; else 0."""
    if not len(lengths):
        return 0
    first = int(lengths[0])
    return first if first > 0 and bool((lengths == first).all()) else 0
