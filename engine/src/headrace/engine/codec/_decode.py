"""Converts frames to Arrow record batches, column by column.

The buffers of small frames are concatenated before arrays are created, so that many frames of a few messages cost little
more than one large frame.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.contract.columns import NULL_LENGTH, NULL_TIME
from headrace.engine._errors import FrameError
from headrace.protocol.v1 import frame_pb2 as pb

MAX_BATCH_ROWS = 16_384
MAX_BATCH_BYTES = 4 * 2**20

_HEADER = pa.struct([pa.field("name", pa.string(), nullable=False), pa.field("value", pa.binary())])
SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("event_time", pa.timestamp("us", tz="UTC")),
        pa.field("stream", pa.string(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("message_id", pa.string()),
        pa.field("headers", pa.list_(pa.field("element", _HEADER, nullable=False)), nullable=False),
    ]
)

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
        raise FrameError(f"stream {stream}: a frame of {count} messages has {len(deltas)} bytes of sequence deltas")
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


def record_batches(frames: Iterable[Columns]) -> Iterator[pa.RecordBatch]:
    """Joins frames into record batches of limited size.

    Raises:
        FrameError: The columns of a frame are inconsistent.
    """
    gathered: list[Columns] = []
    rows = size = 0
    for frame in frames:
        frame_size = len(frame.values) + len(frame.keys) + len(frame.ids) + len(frame.header_names) + len(frame.header_values)
        if gathered and (rows + frame.rows > MAX_BATCH_ROWS or size + frame_size > MAX_BATCH_BYTES):
            yield record_batch(gathered)
            gathered, rows, size = [], 0, 0
        gathered.append(frame)
        rows += frame.rows
        size += frame_size
    if gathered:
        yield record_batch(gathered)


def record_batch(frames: Sequence[Columns]) -> pa.RecordBatch:
    """One record batch of all messages of the frames.

    Raises:
        FrameError: The columns of a frame are inconsistent.
    """
    counts = np.array([f.rows for f in frames], dtype=np.int64)
    rows = int(counts.sum())
    arrays = [
        _variable("keys", pa.binary(), [f.keys for f in frames], _lengths([f.key_lengths for f in frames], counts), rows),
        _variable("values", pa.binary(), [f.values for f in frames], _lengths([f.value_lengths for f in frames], counts), rows),
        _times([f.event_times for f in frames], counts, rows),
        _streams([f.stream for f in frames], counts, rows),
        pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(_sequences(frames))]),
        _variable("message_ids", pa.string(), [f.ids for f in frames], _lengths([f.id_lengths for f in frames], counts), rows),
        _headers(frames, rows),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


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
    """The lengths of all frames, with nulls for a frame without the column; empty if no frame has it."""
    if all(parts):
        return b"".join(parts)
    if not any(parts):
        return b""
    return b"".join(part or _NULL_LENGTH_BYTES * int(count) for part, count in zip(parts, counts, strict=True))


def _variable(name: str, kind: pa.DataType, data: Sequence[bytes], lengths: bytes, rows: int) -> pa.Array:
    """An array of variable-length values."""
    joined = b"".join(data)
    if not lengths and rows:
        if joined:
            raise FrameError(f"a frame has {len(joined)} bytes of {name} and no lengths")
        return pa.nulls(rows, kind)
    sizes: _Lengths = _u32(lengths)
    nulls = sizes == NULL_LENGTH
    validity = None
    if nulls.any():
        validity = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
        sizes = np.where(nulls, np.uint32(0), sizes)
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, dtype=np.int64, out=offsets[1:])
    if len(sizes) != rows or offsets[-1] != len(joined) or len(joined) >= 2**31:
        found = f"{len(sizes)} lengths add up to {offsets[-1]} bytes"
        raise FrameError(f"{name}: {found}; the frames have {rows} messages and {len(joined)} bytes")
    return pa.Array.from_buffers(kind, rows, [validity, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(joined)])


def _times(parts: Sequence[bytes], counts: npt.NDArray[np.int64], rows: int) -> pa.Array:
    if not any(parts):
        return pa.nulls(rows, SCHEMA.field("event_time").type)
    joined = b"".join(part or _NULL_TIME_BYTES * int(count) for part, count in zip(parts, counts, strict=True))
    if len(joined) != 8 * rows:
        raise FrameError(f"event_times: {len(joined)} bytes for {rows} messages")
    nulls = np.frombuffer(joined, "<i8") == NULL_TIME
    validity = pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None
    return pa.Array.from_buffers(SCHEMA.field("event_time").type, rows, [validity, pa.py_buffer(joined)])


def _streams(names: Sequence[str], counts: npt.NDArray[np.int64], rows: int) -> pa.Array:
    # A dictionary array's take() would import pyarrow.compute, which takes a second in each new process.
    encoded = [name.encode() for name in names]
    data = b"".join(name * int(count) for name, count in zip(encoded, counts, strict=True))
    offsets = np.zeros(rows + 1, dtype=np.int32)
    np.cumsum(np.repeat([len(name) for name in encoded], counts), out=offsets[1:])
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _sequences(frames: Sequence[Columns]) -> npt.NDArray[np.int64]:
    """The sequence of every message: the first one of each frame, then increments of one or of its deltas."""
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


def _headers(frames: Sequence[Columns], rows: int) -> pa.Array:
    kind = SCHEMA.field("headers").type
    if not any(f.header_counts for f in frames):
        counts = np.zeros(rows, dtype=np.uint32)
    else:
        counts = _u32(b"".join(f.header_counts or _ZERO * f.rows for f in frames))
    offsets = np.zeros(rows + 1, dtype=np.int64)
    if len(counts) != rows:
        raise FrameError(f"header_counts: {len(counts)} for {rows} messages")
    np.cumsum(counts, dtype=np.int64, out=offsets[1:])
    total = int(offsets[-1])
    name_lengths = b"".join(f.header_name_lengths for f in frames)
    value_lengths = b"".join(f.header_value_lengths for f in frames)
    names = _variable("header_names", pa.string(), [f.header_names for f in frames], name_lengths, total)
    values = _variable("header_values", pa.binary(), [f.header_values for f in frames], value_lengths, total)
    if names.null_count:
        raise FrameError("header_names: a header's name is null")
    entries = pa.Array.from_buffers(_HEADER, total, [None], children=[names, values])
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(offsets.astype(np.int32))], children=[entries])
