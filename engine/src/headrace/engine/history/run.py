"""Reads consecutive slices of a history, in order, as columns of messages."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.contract.columns import MAX_DELTA
from headrace.engine.codec import Columns, columns, frames
from headrace.engine.history.files import File
from headrace.engine.history.request import ColumnNames
from headrace.engine.history.row_columns import Integers, Rows
from headrace.engine.history.rows import read

Place = tuple[int, int, int]
"""Where a message stands: its event time, its part and its row; or its sequence, without a part and a row (-1)."""
_FRAME_ROWS = 16_384
_SLICE_BITS = 32
"""A message without a sequence gets the number of its slice, and after these bits its place in it."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a file: row groups, or bytes.

    Attributes:
        number: Its number.
        file: The file.
        begin: Its first row group or byte.
        end: The row group or byte after its last one.
        stream: The stream of its messages, unless each has its own.
        spans: The first and the last time or sequence of its messages, by the group of slices.
    """

    number: int
    file: File
    begin: int
    end: int
    stream: str
    spans: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class _Chosen:
    """Messages that are in the slices. `at` is the slice of each, `keys` its time or sequence."""

    messages: pa.Table
    at: Integers
    keys: Integers


@dataclass(frozen=True)
class Run:
    """Consecutive slices.

    Attributes:
        parts: The parts that may have messages in them.
        bounds: The places at which the slices start and end, by the group of slices; None where no place bounds them.
        first: The number of the first slice.
        columns: The columns of the files.
        ordered: Whether the messages have streams and sequences.
        until: The event time from which on messages are not in the history, in microseconds since 1970; None if all are.
        streams: The streams that the application reads.
    """

    parts: tuple[Part, ...]
    bounds: Mapping[str, Sequence[Place | None]]
    first: int
    columns: ColumnNames
    ordered: bool
    until: int | None
    streams: frozenset[str]

    def frames(self) -> Iterator[Columns]:
        """The messages, in the order of each stream.

        Raises:
            HistoryError: A file cannot be read, or has changed.
        """
        chosen: dict[str, list[_Chosen]] = {}
        for part in self.parts:
            for rows in read(part.file, part.begin, part.end, self.columns, ordered=self.ordered):
                for stream, where in members(rows, part, self.streams, self.until):
                    found = self._chosen(part, rows, stream, where)
                    if len(found.at):
                        chosen.setdefault(stream, []).append(found)
        for stream in sorted(chosen):
            yield from _frames(stream, *self._in_order(chosen[stream]))

    def _chosen(self, part: Part, rows: Rows, stream: str, where: Integers) -> _Chosen:
        """The rows at `where` that are between the bounds."""
        group = stream if self.ordered else ""
        source = rows.sequences if rows.sequences is not None else rows.times
        keys, numbers = source[where], where + rows.first
        bounds = self.bounds[group]
        at = np.full(len(where), self.first, np.int64)
        inside = np.ones(len(where), np.bool_)
        if bounds[0] is not None:
            inside &= _reached(keys, part.number, numbers, bounds[0])
        for place in bounds[1:-1]:
            assert place is not None, "only the outer bounds may be absent"
            at += _reached(keys, part.number, numbers, place)
        if bounds[-1] is not None:
            inside &= ~_reached(keys, part.number, numbers, bounds[-1])
        assert rows.messages is not None, "the messages were asked for"
        return _Chosen(rows.messages.take(pa.array(where[inside])), at[inside], keys[inside])

    def _in_order(self, chosen: Sequence[_Chosen]) -> tuple[pa.Table, Integers]:
        """The messages of a stream, and their sequences; of messages with one sequence, the first."""
        joined = pa.concat_tables([each.messages for each in chosen], promote_options="default")
        keys = np.concatenate([each.keys for each in chosen])
        at = np.concatenate([each.at for each in chosen])
        # Stable: parts and their rows are in order already.
        order = np.lexsort((keys, at))
        if self.ordered:
            keys = keys[order]
            kept = np.append(True, keys[1:] != keys[:-1])
            return joined.take(pa.array(order[kept])), keys[kept]
        at = at[order]
        _, begins, counts = np.unique(at, return_index=True, return_counts=True)
        ranks = np.arange(len(at)) - np.repeat(begins, counts)
        return joined.take(pa.array(order)), (at << _SLICE_BITS) + ranks + 1


def members(rows: Rows, part: Part, streams: frozenset[str], until: int | None) -> Iterator[tuple[str, Integers]]:
    """The rows of each stream that belong to the history."""
    inside = np.ones(len(rows.times), np.bool_)
    if until is not None:
        # NULL_TIME is below all times: a message without a time belongs to the history.
        inside = rows.times < until
    if rows.streams is None:
        yield part.stream, np.flatnonzero(inside)
        return
    names = np.array(rows.streams)
    for stream in sorted(set(rows.streams) & streams):
        yield stream, np.flatnonzero(inside & (names == stream))


def _reached(keys: Integers, part: int, rows: Integers, place: Place) -> npt.NDArray[np.bool_]:
    """Which messages are at a place or after it."""
    key, other, row = place
    here = rows >= row if part == other else np.full(len(rows), part > other)
    reached: npt.NDArray[np.bool_] = (keys > key) | ((keys == key) & here)
    return reached


def _frames(stream: str, messages: pa.Table, sequences: Integers) -> Iterator[Columns]:
    """The messages of a stream as columns, cut where the difference of two sequences is too large."""
    edges = [0, *(np.flatnonzero(np.diff(sequences) > MAX_DELTA) + 1).tolist(), len(sequences)]
    for low, high in pairwise(edges):
        for begin in range(low, high, _FRAME_ROWS):
            at = begin
            for batch in messages.slice(begin, min(_FRAME_ROWS, high - begin)).combine_chunks().to_batches():
                for frame in frames(batch, 0):
                    here = sequences[at : at + frame.count]
                    at += frame.count
                    deltas = np.diff(here)
                    packed = b"" if (deltas == 1).all() else deltas.astype("<u4").tobytes()
                    yield columns(stream, frame)._replace(first=int(here[0]), last=int(here[-1]), deltas=packed)
