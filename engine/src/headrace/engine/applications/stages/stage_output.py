"""The output of a stage: converts the result of a pass to rows, for the buckets of the next shuffle and for sinks."""

import pickle
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.engine.applications.stages.blocks import Block, Messages, blocks_by_bucket
from headrace.engine.applications.stages.packed import HEADERS, Packed, PackedHeaders
from headrace.engine.applications.stages.plan import COUNTS, BlockRow, Plan
from headrace.engine.applications.states.keys import buckets_of
from headrace.pipelines import StepError
from headrace.pipelines.runtime import (
    NO_TIME,
    Column,
    Counted,
    Elements,
    Failed,
    Key,
    Pass,
    Rows,
    bounded,
    first_time,
    in_order,
    prefix_maxima,
    text_of,
)

_TIME = pa.timestamp("us", tz="UTC")


class StageOutput:
    """The output of one stage of a plan.

    Args:
        plan: The plan.
        now: When the micro-batch was planned, in microseconds since 1970; None if no step needs it.
        bucket: The bucket that the stage processes; 0 before the first shuffle.
    """

    def __init__(self, plan: Plan, now: int | None = None, bucket: int = 0) -> None:
        self._plan = plan
        self._now = now
        self._bucket = bucket
        targets = (*plan.graph.sinks, *plan.graph.lakes)
        self._targets = {target: -1 - number for number, target in enumerate(targets)}

    def rows(self, passed: Pass, messages: Messages | None = None) -> Iterator[BlockRow]:
        """The rows for the result of a pass.

        Args:
            passed: The pass.
            messages: In the source stage, the packed messages that all elements come from.
        """
        shuffled = passed.shuffled
        if messages is not None and self._plan.graph.uses_time:
            shuffled = in_order(shuffled)
        for number, (key_by, elements) in enumerate(shuffled):
            branch = self._branch(number)
            if messages is not None and self._plan.graph.uses_time:
                yield from self._marked(key_by, elements, messages, passed, branch)
            else:
                yield from self._shuffled(key_by, elements, messages, branch)
        for number, (sink, elements) in enumerate(passed.written):
            yield replace(self._written(sink, elements), branch=self._branch(number))
        written = len(passed.written)
        for number, (path, elements) in enumerate(passed.stored, written):
            yield replace(self._stored(path, elements), branch=self._branch(number))
        if passed.failed_elements:
            yield self._dead_letters(passed.failed_elements)
        for (what, step), number in passed.counts.items():
            yield BlockRow(self._plan.bucket_ids[0], COUNTS[what], step, 0, number, b"\0")

    def _marked(self, key_by: int, elements: Elements, messages: Messages, passed: Pass, branch: int) -> Iterator[BlockRow]:
        """Blocks with the marks of this piece of the stream, and a row with the largest mark for every other bucket."""
        times = elements.times
        if times is None:
            times = np.full(len(elements), NO_TIME, np.int64)
        own = messages if elements.origin.sequences is messages.sequences else None
        ahead = None if self._now is None else self._plan.graph.max_ahead(key_by, elements.origin.stream)
        counting, count = bounded(times, None if ahead is None or self._now is None else self._now + ahead)
        if count:
            passed.count(Counted.AHEAD, self._plan.graph.steps[key_by].name, count)
        marks = prefix_maxima(counting)
        peak = int(marks[-1])
        begins = first_time(counting)
        there = set()
        marked = passed.combined(key_by, replace(elements, times=times, marks=marks))
        for row in self._shuffled(key_by, marked, own, branch):
            there.add(row.bucket)
            yield replace(row, peak=peak, first=begins)
        if peak != NO_TIME:
            first = _first(elements)
            for bucket in [each for each in self._plan.bucket_ids if each not in there]:
                yield BlockRow(bucket, key_by, elements.origin.stream, first, 0, b"", peak, first=begins)

    def _branch(self, number: int) -> int:
        return self._bucket << 32 | number

    def _shuffled(self, key_by: int, elements: Elements, messages: Messages | None, branch: int) -> Iterator[BlockRow]:
        keys = elements.keys
        assert keys is not None, "elements have keys after a key_by"
        block = self._block(key_by, elements, keys, messages)
        count = self._plan.buckets
        stream = elements.origin.stream
        if self._plan.graph.is_for_every_bucket(key_by):
            first, packed = int(block.messages.sequences[0]), self._packed(key_by, block, stream)
            for each in self._plan.bucket_ids:
                yield BlockRow(each, key_by, stream, first, len(keys), packed, branch=branch)
            return
        for bucket, part in blocks_by_bucket(block, buckets_of(keys, count), count):
            rows, packed = len(part.keys or ()), self._packed(key_by, part, stream)
            first = int(part.messages.sequences[0])
            yield BlockRow(self._plan.bucket_ids[bucket], key_by, stream, first, rows, packed, branch=branch)

    def _packed(self, key_by: int, block: Block, stream: str) -> bytes:
        """A block as bytes.

        Raises:
            StepError: A value cannot be sent to another process, whatever the policy is: no function has raised.
        """
        try:
            return block.pack()
        except Exception as error:
            for index, value in enumerate(block.values or ()):
                try:
                    pickle.dumps(value, 5)
                except Exception as reason:
                    key = "" if block.keys is None else f", key {block.keys[index]!r}"
                    sequence = int(block.messages.sequences[index if block.at is None else block.at[index]])
                    raise StepError(
                        f"pipeline {self._plan.graph.name}, step {self._plan.graph.steps[key_by].name}{key}, stream {stream}, "
                        f"sequence {sequence}: {type(reason).__name__}: {text_of(reason)}. Such a value cannot go to another "
                        "process, as all do behind key_by: let the function before return plain data"
                    ) from error
            raise

    def _block(self, key_by: int, elements: Elements, keys: Sequence[Key], messages: Messages | None) -> Block:
        again = elements.decoded_by is not None
        payloads = again or self._plan.graph.dead_letters is not None
        if messages is None:
            messages = Messages.of_origin(elements.origin, payloads=payloads, headers=self._plan.needs_headers(key_by))
        else:
            messages = messages if payloads else messages.without_payloads()
            messages = messages if self._plan.needs_headers(key_by) else messages.without_headers()
        headers = elements.headers if self._plan.graph.headers_after[key_by] else None
        if elements.mixed and headers is None and messages.headers is not None:
            headers = elements.without_headers().headers
        if not again:
            beside = (keys, elements.times, elements.marks, headers, elements.lineages)
            return Block(messages, None, elements.values, elements.at, *beside)
        if elements.at is not None:
            messages = messages.take(np.asarray(elements.at, np.int64))
        beside = (keys, elements.times, elements.marks, headers, elements.lineages)
        return Block(messages, elements.decoded_by, None, None, *beside)

    def _written(self, sink: str, elements: Elements) -> BlockRow:
        origin = elements.origin
        count = len(elements)
        columns = {"value": Packed.of_values(elements.values).array()}
        keys = elements.sink_keys()
        if keys is not None:
            spelled = _spelled(keys)
            if spelled.null_count < count:
                columns["key"] = spelled
        times = elements.times
        if times is not None and (times != NO_TIME).any():
            columns["event_time"] = _times(times)
        headers = elements.own_headers()
        if headers is not None:
            packed = PackedHeaders.of_values(headers)
            if packed.counts.any():
                columns["headers"] = packed.array()
        row = pa.RecordBatch.from_pydict(columns)
        return BlockRow(self._aside(origin.stream), self._targets[sink], origin.stream, _first(elements), count, row)

    def _stored(self, path: str, elements: Elements) -> BlockRow:
        """The rows of a table."""
        assert isinstance(elements.values, Rows), "a lake makes rows of its values"
        stream, rows = elements.origin.stream, elements.values.batch
        return BlockRow(self._aside(stream), self._targets[path], stream, _first(elements), len(elements), rows)

    def _dead_letters(self, failed: Sequence[Failed]) -> BlockRow:
        """The original messages with their headers, and further ones that describe the failure."""
        graph = self._plan.graph
        assert graph.dead_letters is not None, "a graph with OnError.DEAD_LETTER has a dead-letter sink"
        places = [f.elements.place(f.index) for f in failed]
        values = [
            None if f.elements.origin.raw is None else f.elements.origin.raw[p] for f, p in zip(failed, places, strict=True)
        ]
        keys = [
            None if f.elements.origin.keys is None else f.elements.origin.keys[p] for f, p in zip(failed, places, strict=True)
        ]
        headers = [
            [
                *_own_headers(f.elements, p),
                {"name": "headrace-pipeline", "value": graph.name.encode()},
                {"name": "headrace-step", "value": f.step.encode()},
                {"name": "headrace-reason", "value": f.error.encode(errors="backslashreplace")},
                {"name": "headrace-stream", "value": f.elements.origin.stream.encode()},
                {"name": "headrace-sequence", "value": b"%d" % int(f.elements.origin.sequences[p])},
            ]
            for f, p in zip(failed, places, strict=True)
        ]
        columns = {
            "value": pa.array(values, pa.binary()),
            "key": pa.array(keys, pa.binary()),
            "headers": pa.array(headers, HEADERS),
        }
        first = failed[0].elements
        row = pa.RecordBatch.from_pydict(columns)
        stream = first.origin.stream
        return BlockRow(self._aside(stream), self._targets[graph.dead_letters], stream, _first(first), len(failed), row)

    def _aside(self, stream: str) -> int:
        """The bucket through which rows for sinks pass, so that the rows of one stream stay in order."""
        return self._plan.bucket_ids[zlib.crc32(stream.encode()) % self._plan.buckets]


def mark_rows(rows: Sequence[BlockRow]) -> Iterator[BlockRow]:
    """The event time in the rows of a stage, as rows for the following stages."""
    return (replace(row, messages=0, block=b"") for row in rows if row.peak != NO_TIME)


def _own_headers(elements: Elements, place: int) -> list[dict[str, Any]]:
    """The headers of a message in the source."""
    headers = elements.origin.headers
    return [] if headers is None else [{"name": name, "value": value} for name, value in headers[place]]


def _first(elements: Elements) -> int:
    return int(elements.origin.sequences[elements.place(0)])


def _spelled(keys: Sequence[Any]) -> pa.Array:
    """Keys as bytes: text in UTF-8, None as null, other keys as their `repr`."""
    if isinstance(keys, Column) and not pa.types.is_integer(keys.array().type):
        return keys.array()
    if not set(map(type, keys)) <= {bytes, type(None)}:
        keys = [_bytes_of(key) for key in keys]
    return Packed.of_values(keys).array()


def _bytes_of(key: Any) -> bytes | None:
    if key is None or isinstance(key, bytes):
        return key
    return (key if isinstance(key, str) else repr(key)).encode()


def _times(times: npt.NDArray[np.int64]) -> pa.Array:
    nulls = times == NO_TIME
    validity = pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None
    return pa.Array.from_buffers(_TIME, len(times), [validity, pa.py_buffer(np.ascontiguousarray(times))])
