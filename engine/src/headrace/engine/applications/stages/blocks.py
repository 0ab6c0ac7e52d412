"""Blocks: many elements as one value of a Spark row, so that Spark shuffles and sorts a few hundred rows, not a million.

Only this module writes and reads blocks. A block exists between two stages of a micro-batch. It contains either raw messages,
which are decoded after the shuffle, or values that steps have computed.
"""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.engine.applications.stages.packed import Packed, PackedHeaders
from headrace.pipelines.runtime import Elements, Headers, Key, Lineage, Origin, Rows, Times

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Messages:
    """Raw messages of one stream.

    Attributes:
        sequences: Their sequences.
        keys: Their own keys.
        values: Their payloads.
        times: Their event times, in microseconds since 1970; None if no step needs them.
        ids: Their ids; None if no step needs them.
        headers: Their headers; None if no step needs them, or no message has any.
    """

    sequences: _Numbers
    keys: Packed
    values: Packed
    times: Times | None = None
    ids: Packed | None = None
    headers: PackedHeaders | None = None

    def take(self, indices: _Numbers) -> "Messages":
        """The messages at these indices."""
        return Messages(
            self.sequences[indices],
            self.keys.take(indices),
            self.values.take(indices),
            None if self.times is None else self.times[indices],
            None if self.ids is None else self.ids.take(indices),
            None if self.headers is None else self.headers.take(indices),
        )

    @classmethod
    def of_origin(cls, origin: Origin, *, payloads: bool, headers: bool) -> "Messages":
        """The messages that elements come from; without payloads and headers if no step needs them."""
        count = len(origin)
        keys = Packed.nulls(count) if origin.keys is None else Packed.of_values(origin.keys)
        values = Packed.of_values(origin.raw) if payloads and origin.raw is not None else Packed.nulls(count)
        ids = None
        if origin.ids is not None:
            ids = Packed.of_values([None if text is None else text.encode() for text in origin.ids])
        packed = PackedHeaders.of_values(origin.headers) if headers and origin.headers is not None else None
        return cls(origin.sequences, keys, values, origin.times, ids, packed)

    def without_payloads(self) -> "Messages":
        """The same messages without payloads, for elements that are not decoded again."""
        return replace(self, values=Packed.nulls(len(self.sequences)))

    def without_headers(self) -> "Messages":
        """The same messages without headers."""
        return self if self.headers is None else replace(self, headers=None)

    def origin(self, stream: str) -> Origin:
        """The messages as the origin of elements."""
        ids = None if self.ids is None else [None if i is None else i.decode() for i in self.ids]
        return Origin(stream, self.sequences, self.values, self.keys, self.times, ids, self.headers)


@dataclass(frozen=True, slots=True)
class Block:
    """Elements to be shuffled.

    Attributes:
        messages: The messages that they come from.
        decoded_by: The source that decodes `messages` to the values again, one for each; None if `values` has them.
        values: The values, if they are not decoded again.
        at: The index in `messages` of each; None if each message has one element.
        keys: The key of each; None if it is the message's key.
        times: The event time of each; None if no step needs times, or if the times of the messages hold.
        marks: The watermark of each.
        headers: The headers of each; None if the headers of the messages hold.
        lineages: The lineage of each; None if no step needs them.
    """

    messages: Messages
    decoded_by: int | None
    values: Sequence[Any] | None = None
    at: Sequence[int] | None = None
    keys: Sequence[Key] | None = None
    times: Times | None = None
    marks: Times | None = None
    headers: Sequence[Headers] | None = None
    lineages: Sequence[Lineage] | None = None

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
        beside = (self.values, self.at, self.keys, self.times, self.marks, self.headers, self.lineages)
        return pickle.dumps((columns, ids, m.headers, self.decoded_by, beside), 5)

    @classmethod
    def unpack(cls, packed: bytes) -> "Block":
        """The block from a row's bytes."""
        columns, ids, headers, decoded_by, beside = pickle.loads(packed)
        sequences, key_data, key_lengths, value_data, value_lengths, message_times = columns
        messages = Messages(
            sequences,
            Packed(key_data, key_lengths),
            Packed(value_data, value_lengths),
            message_times,
            None if ids is None else Packed(*ids),
            headers,
        )
        return cls(messages, decoded_by, *beside)

    def elements(self, stream: str) -> Elements:
        """The elements with their keys, for the steps after the shuffle."""
        origin = self.messages.origin(stream)
        keys = self.messages.keys.without_nulls() if self.keys is None else self.keys
        times = self.times
        if times is None and origin.times is not None:
            times = origin.times if self.at is None else origin.times[np.asarray(self.at, np.int64)]
        values = self.values if self.values is not None else origin.raw or ()
        beside = (self.marks, self.decoded_by, False, self.headers, self.lineages)
        return Elements(values, origin, self.at, keys, times, *beside)


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
        headers=None if block.headers is None else _headers_at(block.headers, indices),
        lineages=None if block.lineages is None else [block.lineages[i] for i in chosen],
    )
    if block.values is None:
        return replace(part, messages=block.messages.take(places), at=None)
    used, at = np.unique(places, return_inverse=True)
    values = block.values.take(chosen) if isinstance(block.values, Rows) else [block.values[i] for i in chosen]
    return replace(part, messages=block.messages.take(used), values=values, at=at.tolist())


def _headers_at(headers: Sequence[Headers], indices: _Numbers) -> Sequence[Headers]:
    return headers.take(indices) if isinstance(headers, PackedHeaders) else [headers[i] for i in indices.tolist()]
