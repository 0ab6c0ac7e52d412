"""The columns of frames, and of the messages of several frames together.

The bytes of small frames are concatenated first, so that many frames of a few messages cost little more than one large frame.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.contract.columns import NULL_LENGTH, NULL_TIME
from headrace.contract.counts import counted
from headrace.engine._errors import FrameError
from headrace.protocol.v1 import frame_pb2 as pb

_NULL_LENGTH_BYTES = NULL_LENGTH.to_bytes(4, "little")
_NULL_TIME_BYTES = NULL_TIME.to_bytes(8, "little", signed=True)
_ONE = b"\x01\x00\x00\x00"
_ZERO = b"\x00\x00\x00\x00"

_Lengths = npt.NDArray[np.uint32]


class Columns(NamedTuple):
    """The columns of a frame, each read once, since protobuf copies bytes at every access."""

    stream: str
    first: int
    last: int
    rows: int
    deltas: bytes
    keys: bytes
    key_lengths: bytes
    values: bytes
    value_lengths: bytes
    event_times: bytes
    ids: bytes
    id_lengths: bytes
    header_counts: bytes
    header_names: bytes
    header_name_lengths: bytes
    header_values: bytes
    header_value_lengths: bytes


def columns(stream: str, frame: pb.Frame) -> Columns:
    """The columns of a frame.

    Raises:
        FrameError: The frame is empty, or the number of its sequence deltas is wrong.
    """
    count, first, deltas = frame.count, frame.first_sequence, frame.sequence_deltas
    if count < 1 or (deltas and len(deltas) != 4 * (count - 1)):
        raise FrameError(f"stream {stream}: a frame of {counted(count, 'message')} has {len(deltas)} bytes of sequence deltas")
    last = first + (int(_u32(deltas).sum(dtype=np.int64)) if deltas else count - 1)
    return Columns(
        stream,
        first,
        last,
        count,
        deltas,
        frame.keys,
        frame.key_lengths,
        frame.values,
        frame.value_lengths,
        frame.event_times,
        frame.message_ids,
        frame.message_id_lengths,
        frame.header_counts,
        frame.header_names,
        frame.header_name_lengths,
        frame.header_values,
        frame.header_value_lengths,
    )


def sequences_of(frame: Columns) -> npt.NDArray[np.int64]:
    """The sequence of each message."""
    return _sequences([frame])


def cut(frame: Columns, after: int, upto: int) -> Columns | None:
    """The messages with sequences greater than `after` and at most `upto`; None if there are none."""
    if frame.first > after and frame.last <= upto:
        return frame
    if frame.last <= after or frame.first > upto:
        return None
    sequences = _sequences([frame])
    low, high = (int(np.searchsorted(sequences, edge, side="right")) for edge in (after, upto))
    if low >= high:
        return None
    keys, key_lengths = _cut_column(frame.keys, frame.key_lengths, low, high)
    values, value_lengths = _cut_column(frame.values, frame.value_lengths, low, high)
    ids, id_lengths = _cut_column(frame.ids, frame.id_lengths, low, high)
    counts = _u32(frame.header_counts)
    header_low, header_high = int(counts[:low].sum(dtype=np.int64)), int(counts[:high].sum(dtype=np.int64))
    names, name_lengths = _cut_column(frame.header_names, frame.header_name_lengths, header_low, header_high)
    header_values, header_value_lengths = _cut_column(frame.header_values, frame.header_value_lengths, header_low, header_high)
    return Columns(
        frame.stream,
        int(sequences[low]),
        int(sequences[high - 1]),
        high - low,
        frame.deltas[4 * low : 4 * (high - 1)],
        keys,
        key_lengths,
        values,
        value_lengths,
        frame.event_times[8 * low : 8 * high],
        ids,
        id_lengths,
        frame.header_counts[4 * low : 4 * high],
        names,
        name_lengths,
        header_values,
        header_value_lengths,
    )


class Texts(NamedTuple):
    """Values of variable length: their bytes, concatenated, and the length of each, `NULL_LENGTH` for null."""

    data: bytes
    lengths: _Lengths

    @property
    def nulls(self) -> npt.NDArray[np.bool_] | None:
        """Which values are null; None if none is."""
        nulls = self.lengths == NULL_LENGTH
        return nulls if nulls.any() else None

    @property
    def all_null(self) -> bool:
        """Whether all values are null."""
        return bool((self.lengths == NULL_LENGTH).all())


class Table(NamedTuple):
    """The messages of several frames, column by column. A column without any value is None.

    Attributes:
        rows: The number of messages.
        sequences: Their sequences.
        keys: Their keys.
        values: Their payloads.
        times: Their event times, in microseconds since 1970, `NULL_TIME` for null.
        ids: Their ids, in UTF-8.
        header_counts: The number of headers of each.
        header_names: The names of all headers, in UTF-8, without nulls.
        header_values: The values of all headers.
    """

    rows: int
    sequences: npt.NDArray[np.int64]
    keys: Texts | None
    values: Texts | None
    times: npt.NDArray[np.int64] | None
    ids: Texts | None
    header_counts: _Lengths | None
    header_names: Texts | None
    header_values: Texts | None


def table(frames: Sequence[Columns]) -> Table:
    """All messages of the frames, in order.

    Raises:
        FrameError: The columns of a frame are inconsistent.
    """
    counts = np.array([f.rows for f in frames], dtype=np.int64)
    rows = int(counts.sum())
    header_counts, headers = _header_counts(frames, rows)
    names = _texts("header_names", [f.header_names for f in frames], b"".join(f.header_name_lengths for f in frames), headers)
    values = _texts("header_values", [f.header_values for f in frames], b"".join(f.header_value_lengths for f in frames), headers)
    if headers and (names is None or names.nulls is not None):
        raise FrameError("header_names: a header's name is null")
    return Table(
        rows,
        _sequences(frames),
        _texts("keys", [f.keys for f in frames], _lengths([f.key_lengths for f in frames], counts), rows),
        _texts("values", [f.values for f in frames], _lengths([f.value_lengths for f in frames], counts), rows),
        _times([f.event_times for f in frames], counts, rows),
        _texts("message_ids", [f.ids for f in frames], _lengths([f.id_lengths for f in frames], counts), rows),
        header_counts,
        names,
        values,
    )


def _u32(data: bytes) -> _Lengths:
    if len(data) % 4:
        raise FrameError(f"a column of 4-byte numbers has {len(data)} bytes")
    return np.frombuffer(data, "<u4")


def _cut_column(data: bytes, lengths: bytes, low: int, high: int) -> tuple[bytes, bytes]:
    if not lengths:
        return data, lengths
    sizes = _u32(lengths)
    sizes = np.where(sizes == NULL_LENGTH, 0, sizes)
    start = int(sizes[:low].sum(dtype=np.int64))
    end = start + int(sizes[low:high].sum(dtype=np.int64))
    return data[start:end], lengths[4 * low : 4 * high]


def _lengths(parts: Sequence[bytes], counts: npt.NDArray[np.int64]) -> bytes:
    """The lengths of all frames, with nulls for a frame without the column; empty if all frames lack it."""
    if all(parts):
        return b"".join(parts)
    if not any(parts):
        return b""
    return b"".join(part or _NULL_LENGTH_BYTES * int(count) for part, count in zip(parts, counts, strict=True))


def _texts(name: str, data: Sequence[bytes], lengths: bytes, rows: int) -> Texts | None:
    """Values of variable length; None if there is no column, or no row."""
    joined = b"".join(data)
    if not lengths and (rows or not joined):
        if joined:
            raise FrameError(f"a frame has {len(joined)} bytes of {name} and no lengths")
        return None
    sizes = _u32(lengths)
    nulls = sizes == NULL_LENGTH
    total = int(sizes.sum(dtype=np.int64)) - NULL_LENGTH * int(np.count_nonzero(nulls))
    if len(sizes) != rows or total != len(joined) or total >= 2**31:
        found = f"{len(sizes)} lengths add up to {total} bytes"
        raise FrameError(f"{name}: {found}; the frames have {counted(rows, 'message')} and {len(joined)} bytes")
    return Texts(joined, sizes)


def _times(parts: Sequence[bytes], counts: npt.NDArray[np.int64], rows: int) -> npt.NDArray[np.int64] | None:
    if not any(parts):
        return None
    joined = b"".join(part or _NULL_TIME_BYTES * int(count) for part, count in zip(parts, counts, strict=True))
    if len(joined) != 8 * rows:
        raise FrameError(f"event_times: {len(joined)} bytes for {counted(rows, 'message')}")
    return np.frombuffer(joined, "<i8")


def _sequences(frames: Sequence[Columns]) -> npt.NDArray[np.int64]:
    """The sequence of every message: in each frame, one more than the one before, or its delta more."""
    counts = np.array([f.rows for f in frames], dtype=np.int64)
    firsts = np.array([f.first for f in frames], dtype=np.int64)
    begins = np.cumsum(counts) - counts
    if not any(f.deltas for f in frames):
        return np.repeat(firsts - begins, counts) + np.arange(int(counts.sum()), dtype=np.int64)
    steps = _u32(b"".join(_ONE + (f.deltas or _ONE * (f.rows - 1)) for f in frames))
    if not steps.all():
        raise FrameError(f"stream {frames[0].stream}: a sequence delta is 0, and sequences must rise")
    run = np.cumsum(steps, dtype=np.int64)
    return np.repeat(firsts - run[begins], counts) + run


def _header_counts(frames: Sequence[Columns], rows: int) -> tuple[_Lengths | None, int]:
    """How many headers each message has, None if none has any, and how many there are in all."""
    if not any(f.header_counts for f in frames):
        return None, 0
    counts = _u32(b"".join(f.header_counts or _ZERO * f.rows for f in frames))
    if len(counts) != rows:
        raise FrameError(f"header_counts: {len(counts)} for {counted(rows, 'message')}")
    total = int(counts.sum(dtype=np.int64))
    return counts if total else None, total
