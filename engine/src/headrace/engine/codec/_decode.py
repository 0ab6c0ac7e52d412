"""Converts frames to Arrow record batches, column by column."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.contract.columns import NULL_TIME
from headrace.engine.codec._columns import Columns, Table, Texts, table

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
    found = table(frames)
    rows = found.rows
    arrays = [
        _variable(found.keys, pa.binary(), rows),
        _variable(found.values, pa.binary(), rows),
        _times(found.times, rows),
        _streams([f.stream for f in frames], np.array([f.rows for f in frames], dtype=np.int64), rows),
        pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(found.sequences)]),
        _variable(found.ids, pa.string(), rows),
        _headers(found),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _variable(texts: Texts | None, kind: pa.DataType, rows: int) -> pa.Array:
    """An array of values of variable length."""
    if texts is None:
        return pa.nulls(rows, kind)
    sizes, nulls, validity = texts.lengths, texts.nulls, None
    if nulls is not None:
        validity = _validity(nulls)
        sizes = np.where(nulls, np.uint32(0), sizes)
    return pa.Array.from_buffers(kind, rows, [validity, pa.py_buffer(_offsets(sizes)), pa.py_buffer(texts.data)])


def _times(times: npt.NDArray[np.int64] | None, rows: int) -> pa.Array:
    kind = SCHEMA.field("event_time").type
    if times is None:
        return pa.nulls(rows, kind)
    nulls = times == NULL_TIME
    return pa.Array.from_buffers(kind, rows, [_validity(nulls) if nulls.any() else None, pa.py_buffer(times)])


def _streams(names: Sequence[str], counts: npt.NDArray[np.int64], rows: int) -> pa.Array:
    # A dictionary array's take() would import pyarrow.compute, which takes a second in each new process.
    encoded = [name.encode() for name in names]
    data = b"".join(name * int(count) for name, count in zip(encoded, counts, strict=True))
    offsets = np.zeros(rows + 1, dtype=np.int32)
    np.cumsum(np.repeat([len(name) for name in encoded], counts), out=offsets[1:])
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _headers(table: Table) -> pa.Array:
    counts = np.zeros(table.rows, np.uint32) if table.header_counts is None else table.header_counts
    offsets = _offsets(counts)
    total = int(offsets[-1])
    children = [_variable(table.header_names, pa.string(), total), _variable(table.header_values, pa.binary(), total)]
    entries = pa.Array.from_buffers(_HEADER, total, [None], children=children)
    return pa.Array.from_buffers(SCHEMA.field("headers").type, table.rows, [None, pa.py_buffer(offsets)], children=[entries])


def _offsets(sizes: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
    """Where each of values of these sizes begins, and where the last one ends."""
    offsets = np.zeros(len(sizes) + 1, dtype=np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _validity(nulls: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(~nulls, bitorder="little"))
