"""The source stage: runs the steps before the first shuffle, in the tasks that read the messages."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.engine.applications.stages.blocks import Block, Messages, blocks_by_bucket
from headrace.engine.applications.stages.call_files import record_calls
from headrace.engine.applications.stages.packed import Packed, PackedHeaders
from headrace.engine.applications.stages.plan import ARROW_ROWS, BEGUN, CLOCK, FORGOTTEN, LAST, OPENED, PLANNED, BlockRow, Plan
from headrace.engine.applications.stages.reports import Report
from headrace.engine.applications.stages.stage_output import StageOutput
from headrace.engine.applications.stages.tracing import processing
from headrace.engine.applications.states.keys import packed_buckets
from headrace.engine.codec import Columns, Texts, table
from headrace.engine.source.ranges import Ends
from headrace.pipelines.runtime import END, EVERY_STREAM, Elements, Pass, matches

PIECE_MESSAGES = 16_384
PIECE_BYTES = 4 * 2**20
"""Frames of a stream are joined into pieces of about this size, since a small block costs as much as a large one."""
MAX_BYTES = 64 * 2**20
"""The total size of the gathered frames of all streams, in bytes, at which the largest piece is processed."""


@dataclass
class _Gathered:
    """Frames of one stream, for one piece."""

    frames: list[Columns] = field(default_factory=list)
    messages: int = 0
    bytes: int = 0


def pieces(frames: Iterable[Columns]) -> Iterator[list[Columns]]:
    """Joins the frames of each stream, in order, into pieces that are large enough for one block for each bucket."""
    streams: dict[str, _Gathered] = {}
    total = 0
    for frame in frames:
        gathered = streams.setdefault(frame.stream, _Gathered())
        size = len(frame.values) + len(frame.keys) + len(frame.header_names) + len(frame.header_values) + 16 * frame.rows
        gathered.frames.append(frame)
        gathered.messages += frame.rows
        gathered.bytes += size
        total += size
        if gathered.messages >= PIECE_MESSAGES or gathered.bytes >= PIECE_BYTES or total > MAX_BYTES:
            fullest = max(streams, key=lambda stream: streams[stream].bytes)
            total -= streams[fullest].bytes
            yield streams.pop(fullest).frames
    for gathered in streams.values():
        yield gathered.frames


def source_stage_rows(plan: Plan, frames: Iterable[Columns], now: int | None = None) -> Iterator[pa.RecordBatch]:
    """Runs the steps before the first shuffle on the messages of a task; yields the rows for the shuffle and the sinks.

    Args:
        plan: The plan.
        frames: The messages.
        now: When the micro-batch was planned, in microseconds since 1970; None if no step needs it.

    Raises:
        FrameError: The columns of a frame are inconsistent.
        StepError: A function raises, and its step's policy is `OnError.FAIL`.
    """
    record_calls(plan.calls)
    for piece in pieces(frames):
        # A row for every bucket is there as often as there are buckets.
        yield from batches_of(list(rows_of_piece(plan, piece, now)))


def stream_end_rows(plan: Plan, ends: Ends) -> Iterator[pa.RecordBatch]:
    """The rows of `rows_of_ends` as Arrow record batches."""
    rows = rows_of_ends(plan, ends)
    if rows:
        yield record_batch_of(rows)


def rows_of_ends(plan: Plan, ends: Ends) -> list[BlockRow]:
    """Rows that inform every bucket of streams that are opened, have ended or are forgotten, or of the end of event time."""
    graph = plan.graph
    if not graph.has_end:
        return []
    told = [(key_by, stream, OPENED) for key_by, stream in graph.reached_by(ends.opened)]
    told += [(key_by, stream, END) for key_by, stream in graph.reached_by(ends.streams)]
    if ends.all:
        told += [(key_by, EVERY_STREAM, END) for key_by in sorted(graph.first_keys)]
    told += [(min(graph.first_keys), source, BEGUN) for source in graph.begun_after(ends.elapsed)]
    if graph.uses_time:
        told += [(min(graph.first_keys), each.table, BEGUN) for each in graph.bootstraps if each.parts <= ends.bootstrapped]
    if ends.clock is not None:
        told.append((min(graph.first_keys), str(ends.clock), CLOCK))
    if ends.planned_at is not None and graph.uses_clock:
        told.append((min(graph.first_keys), str(ends.planned_at), PLANNED))
    told += [(key_by, stream, FORGOTTEN) for key_by, stream in graph.reached_by(ends.forgotten)]
    return [BlockRow(bucket, key_by, stream, LAST, 0, b"", peak) for key_by, stream, peak in told for bucket in plan.bucket_ids]


def batches_of(rows: Iterable[BlockRow]) -> Iterator[pa.RecordBatch]:
    """The rows as Arrow record batches of about `PIECE_BYTES`: the offsets in one column end at 2 GB."""
    some: list[BlockRow] = []
    size = 0
    for row in rows:
        some.append(row)
        size += row.size
        if size >= PIECE_BYTES:
            yield record_batch_of(some)
            some, size = [], 0
    if some:
        yield record_batch_of(some)


def record_batch_of(rows: list[BlockRow]) -> pa.RecordBatch:
    """The rows as an Arrow record batch."""
    columns = [_column([_value(row, field.name) for row in rows], field.type) for field in ARROW_ROWS]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_ROWS)


def _value(row: BlockRow, name: str) -> Any:
    return row.packed if name == "block" else getattr(row, name)


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    # Not pa.array(): with it, Arrow imports pandas if it is installed, which takes 0.4 s and 40 MB in each new process.
    if pa.types.is_integer(kind):
        numbers = np.array(values, f"i{kind.bit_width // 8}")
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(numbers)])
    packed = Packed.of_values([value.encode() if isinstance(value, str) else value for value in values]).array()
    return pa.Array.from_buffers(kind, len(packed), packed.buffers())


def rows_of_piece(plan: Plan, piece: list[Columns], now: int | None) -> Iterator[BlockRow]:
    """Runs the steps before the first shuffle on consecutive frames of a stream. Arguments and errors as `source_stage_rows`."""
    stream = piece[0].stream
    with processing(stream, plan.graph.name, 0) as traced:
        if traced is not None:
            traced.take_frames(piece)
        yield from _rows_of_piece(plan, stream, piece, now)


def _rows_of_piece(plan: Plan, stream: str, piece: list[Columns], now: int | None) -> Iterator[BlockRow]:
    graph = plan.graph
    messages = _messages(piece)
    elements: Elements | None = None
    passed = Pass(graph)
    untouched: list[BlockRow] = []
    for number, source in graph.sources.items():
        if not any(matches(pattern, stream) for pattern in source.streams):
            continue
        key_by = graph.only_decodes(number)
        if key_by is not None:
            kept = messages if plan.needs_headers(key_by) else messages.without_headers()
            untouched += _untouched(plan, stream, kept, number, key_by)
            measured = passed.measures[source.name]
            measured.received += len(messages.sequences)
            measured.sent += len(messages.sequences)
            continue
        if elements is None:
            origin = messages.origin(stream)
            elements = Elements(origin.raw or (), origin, times=origin.times)
        passed.read(number, elements)
    yield from _measured(plan, [*untouched, *StageOutput(plan, now).rows(passed, messages)], passed)


def _measured(plan: Plan, rows: list[BlockRow], passed: Pass) -> list[BlockRow]:
    """The rows, and a report of what the steps have done, which takes the way of the last one: no task runs for it alone."""
    if not passed.measures:
        return rows
    return [*rows, Report(measures=dict(passed.measures)).row(rows[-1].bucket if rows else plan.bucket_ids[0])]


def _untouched(plan: Plan, stream: str, messages: Messages, source: int, key_by: int) -> Iterator[BlockRow]:
    """Blocks of messages that no function processes before the shuffle."""
    buckets = packed_buckets(messages.keys.data, np.maximum(messages.keys.lengths, 0).astype(np.int64), plan.buckets)
    branch = source - len(plan.graph.steps)  # sorts before the branches of functions
    for bucket, block in blocks_by_bucket(Block(messages, source), buckets, plan.buckets):
        part = block.messages
        first, count = int(part.sequences[0]), len(part.sequences)
        yield BlockRow(plan.bucket_ids[bucket], key_by, stream, first, count, block.pack(), branch=branch)


def _messages(piece: list[Columns]) -> Messages:
    found, headers = table(piece), None
    if found.header_counts is not None:
        total = int(found.header_counts.sum(dtype=np.int64))
        counts = found.header_counts.astype(np.int32)
        headers = PackedHeaders(counts, _packed(found.header_names, total), _packed(found.header_values, total))
    ids = None if found.ids is None or found.ids.all_null else _packed(found.ids, found.rows)
    return Messages(
        found.sequences, _packed(found.keys, found.rows), _packed(found.values, found.rows), found.times, ids, headers
    )


def _packed(texts: Texts | None, rows: int) -> Packed:
    return Packed.nulls(rows) if texts is None else Packed.of_texts(texts)
