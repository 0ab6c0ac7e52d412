"""Finds the contexts of sampled messages in the header columns of a frame.

A context is the value of a header `traceparent`, as W3C Trace Context defines it. Messages that are not sampled, or whose
header is not valid, have none.
"""

import re
import struct
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

MAX_LINKS = 32
"""How many contexts a span refers to at most."""

_NAME = b"traceparent"
_VALUE = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f][13579bdf]")
_VALUE_BYTES = 55
_NULL = 0xFFFFFFFF
_NAME_LENGTH = struct.pack("<I", len(_NAME))
_VALUE_LENGTH = struct.pack("<I", _VALUE_BYTES)
_FEW = 64
_IS_ODD = np.isin(np.arange(256), list(b"13579bdf"))

_Lengths = npt.NDArray[np.int64]


class Contexts(dict[bytes, None]):
    """The contexts of some messages, each once, in order, up to `MAX_LINKS`."""

    @property
    def is_full(self) -> bool:
        """Whether there is no room for more."""
        return len(self) >= MAX_LINKS

    def take(self, contexts: Iterable[bytes]) -> None:
        """Adds contexts while there is room."""
        for context in contexts:
            if self.is_full:
                return
            self[context] = None


def sampled(names: bytes, name_lengths: bytes, values: bytes, value_lengths: bytes) -> Contexts:
    """Returns the contexts of the sampled messages of a frame, from its header columns."""
    found = Contexts()
    # Without headers of this name, this search is all that a frame costs.
    if _NAME not in names:
        return found
    if len(name_lengths) <= 4 * _FEW:
        found.take(_one_by_one(names, _numbers(name_lengths), values, _numbers(value_lengths)))
        return found
    count = len(name_lengths) // 4
    if name_lengths == _NAME_LENGTH * count and value_lengths == _VALUE_LENGTH * count and names == _NAME * count:
        ends = np.arange(1, count + 1) * _VALUE_BYTES
    else:
        ends = _ends(names, _lengths(name_lengths), _lengths(value_lengths))
    flags = np.frombuffer(values, np.uint8)[ends - 1]
    for end in ends[_IS_ODD[flags]].tolist():
        if found.is_full:
            break
        value = values[end - _VALUE_BYTES : end]
        if _VALUE.fullmatch(value):
            found[value] = None
    return found


def _one_by_one(names: bytes, sizes: Sequence[int], values: bytes, value_sizes: Sequence[int]) -> Iterable[bytes]:
    name_end = value_end = 0
    for size, value_size in zip(sizes, value_sizes, strict=True):
        name_end += size
        value_end += 0 if value_size == _NULL else value_size
        if value_size == _VALUE_BYTES and size == len(_NAME) and names[name_end - size : name_end] == _NAME:
            value = values[value_end - value_size : value_end]
            if _VALUE.fullmatch(value):
                yield value


def _numbers(column: bytes) -> Sequence[int]:
    """The numbers of a short column: to create an array would take longer."""
    return struct.unpack(f"<{len(column) // 4}I", column)


def _lengths(column: bytes) -> _Lengths:
    lengths = np.frombuffer(column, "<u4").astype(np.int64)
    return np.where(lengths == _NULL, 0, lengths)


def _ends(names: bytes, sizes: _Lengths, value_sizes: _Lengths) -> _Lengths:
    """Where the values end that may be contexts."""
    ends: _Lengths = np.cumsum(value_sizes)[_are_named(names, sizes) & (value_sizes == _VALUE_BYTES)]
    return ends


def _are_named(names: bytes, sizes: _Lengths) -> npt.NDArray[np.bool_]:
    """Whether each header is a `traceparent`."""
    right: npt.NDArray[np.bool_] = np.asarray(sizes == len(_NAME))
    if right.all():
        same: npt.NDArray[np.bool_] = np.asarray(np.frombuffer(names, f"S{len(_NAME)}") == _NAME)
        return same
    at = np.flatnonzero(right)
    starts = np.cumsum(sizes)[at] - len(_NAME)
    data = np.frombuffer(names, np.uint8)[starts[:, None] + np.arange(len(_NAME))]
    right[at] = (data == np.frombuffer(_NAME, np.uint8)).all(axis=1)
    return right
