"""Values as lines or as length-prefixed records, a column at a time."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors._records import MAX_RECORD_BYTES
from headrace.sdk import NULL, Packed

Lengths = np.ndarray[Any, np.dtype[np.uint32]]


def fit_lines(values: Packed) -> bool:
    """Returns whether all values can be lines."""
    return b"\n" not in values.data and not (_lengths(values) == NULL).any()


def fit_prefixed(values: Packed) -> bool:
    """Returns whether all values can be length-prefixed; a larger value could not be read again, and NULL is larger."""
    return bool(_lengths(values).max() <= MAX_RECORD_BYTES)


def lines(values: Packed) -> bytes:
    """Returns each value followed by a line feed; none may be null."""
    return _joined(_array(values.data, _lengths(values)), _LINE_FEED)


def prefixed(values: Packed) -> bytes:
    """Returns each value preceded by its length as a big-endian u32; none may be null."""
    lengths = _lengths(values)
    prefixes = lengths.astype(">u4").tobytes()
    return _joined(_array(prefixes, np.full(len(lengths), 4, np.uint32)), _array(values.data, lengths))


def _joined(first: pa.Array, second: pa.Array | pa.Scalar) -> bytes:
    """Joins the entries of two columns pairwise; the second one may be constant."""
    joined: pa.Array = pc.binary_join_element_wise(first, second, _NOTHING)
    _, offsets, data = joined.buffers()
    last = np.frombuffer(offsets, np.int32)[len(joined)]
    return bytes(data[:last])


def _array(data: bytes, lengths: Lengths) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _lengths(values: Packed) -> Lengths:
    return np.frombuffer(values.lengths, dtype=np.uint32)


def _constant(value: bytes) -> pa.Scalar:
    # Not pa.scalar(): it would import pandas if it is installed, which takes 0.4 s and 40 MB.
    return _array(value, np.array([len(value)], np.uint32))[0]


_LINE_FEED, _NOTHING = _constant(b"\n"), _constant(b"")
