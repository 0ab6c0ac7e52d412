"""Columns of bytes and of headers, without Python objects for single values, which can be pickled."""

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.engine.codec import Texts
from headrace.pipelines.runtime import Column, Headers, HeadersColumn

_Numbers = npt.NDArray[np.int64]
_NULL = -1
"""The length of a value that is null."""
_HEADER = pa.struct([pa.field("name", pa.string(), nullable=False), pa.field("value", pa.binary())])
HEADERS = pa.list_(_HEADER)
"""The Arrow type of a column of headers."""


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
    def of_texts(cls, texts: Texts) -> "Packed":
        """The column of values of frames, whose length of null has the same bits."""
        return cls(texts.data, texts.lengths.view(np.int32))

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
    def objects(self) -> Sequence[Any]:
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


class PackedHeaders(HeadersColumn):
    """The headers of many messages: how many each has, and the names and values of all of them."""

    def __init__(self, counts: npt.NDArray[np.int32], names: Packed, values: Packed) -> None:
        self.counts = counts
        self.names = names
        self.values = values

    @classmethod
    def of(cls, array: pa.Array) -> "PackedHeaders | None":
        """The headers of an Arrow array of lists without nulls; None if no message has any."""
        offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)
        if offsets[-1] == offsets[0]:
            return None
        entries = array.values.slice(offsets[0], offsets[-1] - offsets[0])
        return cls(np.diff(offsets), Packed.of(entries.field(0)), Packed.of(entries.field(1)))

    @classmethod
    def of_values(cls, headers: Sequence[Headers]) -> "PackedHeaders":
        """The column of a sequence of headers."""
        if isinstance(headers, cls):
            return headers
        if isinstance(headers, HeadersColumn):
            return cls.of(headers.array()) or cls(np.zeros(len(headers), np.int32), Packed.nulls(0), Packed.nulls(0))
        entries = list(chain.from_iterable(headers))
        names = Packed.of_values([name.encode() for name, _ in entries])
        return cls(
            np.fromiter(map(len, headers), np.int32, len(headers)), names, Packed.of_values([value for _, value in entries])
        )

    def array(self) -> pa.Array:
        """The column as an Arrow array of lists."""
        offsets = np.zeros(len(self.counts) + 1, np.int32)
        np.cumsum(self.counts, out=offsets[1:])
        names, values = self.names.array(), self.values.array()
        # Not names.cast(): it would import pyarrow.compute, which takes a second in each new process.
        texts = pa.Array.from_buffers(pa.string(), len(names), names.buffers())
        entries = pa.Array.from_buffers(_HEADER, len(names), [None], children=[texts, values])
        return pa.Array.from_buffers(HEADERS, len(self.counts), [None, pa.py_buffer(offsets)], children=[entries])

    def take(self, indices: _Numbers) -> "PackedHeaders":
        """The headers of the messages at these indices."""
        counts = self.counts.astype(np.int64)
        starts = np.cumsum(counts) - counts
        taken = counts[indices]
        ends = np.cumsum(taken)
        within = np.arange(int(ends[-1]) if len(ends) else 0, dtype=np.int64) - np.repeat(ends - taken, taken)
        entries = np.repeat(starts[indices], taken) + within
        return PackedHeaders(self.counts[indices], self.names.take(entries), self.values.take(entries))

    @cached_property
    def objects(self) -> Sequence[Any]:
        """The headers of each message."""
        known: dict[bytes, str] = {}
        names = [known.get(name) or known.setdefault(name, name.decode()) for name in self.names.objects]
        entries = list(zip(names, self.values.objects, strict=True))
        ends = np.cumsum(self.counts, dtype=np.int64)
        return [Headers(entries[a:b]) for a, b in zip((ends - self.counts).tolist(), ends.tolist(), strict=True)]

    def __len__(self) -> int:
        """The number of messages."""
        return len(self.counts)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the columns, without the headers that were created."""
        return PackedHeaders, (self.counts, self.names, self.values)


def _fixed(lengths: npt.NDArray[np.int32]) -> int:
    """The common length of all values, if it is the same and not 0; else 0."""
    if not len(lengths):
        return 0
    first = int(lengths[0])
    return first if first > 0 and bool((lengths == first).all()) else 0
