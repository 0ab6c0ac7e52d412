"""Finds the order of a history, from the times or sequences of its messages alone."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from headrace.contract.columns import NULL_TIME
from headrace.contract.names import covers
from headrace.engine._errors import HistoryError
from headrace.engine.history.files import LINES, PACKED_LINES, PARQUET, File
from headrace.engine.history.index import ALL, Index
from headrace.engine.history.listing import files_at
from headrace.engine.history.live import Repeated
from headrace.engine.history.request import ColumnNames, History
from headrace.engine.history.row_columns import Integers, Rows
from headrace.engine.history.rows import check, has_sequences, read, row_groups
from headrace.engine.history.run import Part, Place, members

SLICE_MESSAGES = 65_536
SLICE_BYTES = 32 * 2**20
"""The approximate size of a slice, which a task reads into memory."""
LINES_BYTES = 8 * 2**20
"""The approximate size of a part of a file of lines."""
_SAMPLES_IN_A_SLICE = 64
_WHOLE = 2**62
"""The end of a file whose unpacked size is unknown, in bytes."""
_UNPACKED = 5
"""How many times larger packed lines may be once they are unpacked."""


def build(history: History, patterns: Sequence[str], slice_messages: int = SLICE_MESSAGES) -> Index:
    """The order of a history.

    Args:
        history: The history, as the user describes it.
        patterns: The patterns of the streams that the application reads.
        slice_messages: The approximate number of messages in a slice.

    Raises:
        OptionError: A path lacks its pattern, or there is no such field of a message.
        HistoryError: A file cannot be read, or lacks a column.
    """
    names = ColumnNames.parse(history.columns)
    given = [(pattern, file) for pattern, path in history.by_pattern(patterns) for file in files_at(path)]
    own = {pattern for pattern, _ in given}
    with_sequences = [has_sequences(file, names) for _, file in given]
    ordered = all(with_sequences)
    if any(with_sequences) and not ordered:
        lacking = given[with_sequences.index(False)][1].path
        raise HistoryError(
            f"history {lacking}: it lacks the columns {names.stream} and {names.sequence}, which other files have; give "
            "sequence= to order all messages by their event times"
        )
    looks = _Looks(names, ordered, history.until, patterns, slice_messages)
    for pattern, file in given:
        check(file, names, ordered=ordered)
        for begin, end, size in _pieces(file):
            looks.take(file, begin, end, size, pattern)
    return looks.index(history, sorted(own))


class _Looks:
    """Looks at the times or sequences of all messages. Only samples of them stay in memory."""

    def __init__(
        self, names: ColumnNames, ordered: bool, until: int | None, patterns: Sequence[str], slice_messages: int
    ) -> None:
        self._names, self._ordered, self._until, self._patterns = names, ordered, until, patterns
        self._slice_messages = slice_messages
        self._stride = max(1, slice_messages // _SAMPLES_IN_A_SLICE)
        self._parts: list[Part] = []
        self._samples: dict[str, list[Integers]] = {}
        self._messages = self._bytes = 0
        self._streams: dict[str, int] = {}
        self._newest = NULL_TIME

    def take(self, file: File, begin: int, end: int, size: int, pattern: str) -> None:
        """Looks at a part of a file."""
        part = Part(len(self._parts), file, begin, end, pattern.replace("*", "history"), {})
        spans: dict[str, tuple[int, int]] = {}
        for rows in read(file, begin, end, self._names, ordered=self._ordered, whole=False):
            for stream, where in members(rows, part, self._read_streams(rows), self._until):
                if len(where):
                    group = stream if self._ordered else ALL
                    low, high = self._note(group, part.number, where, rows)
                    before = spans.get(group, (low, high))
                    spans[group] = min(low, before[0]), max(high, before[1])
                    self._streams[stream] = max(self._streams.get(stream, -1), high)
                    self._messages += len(where)
                    self._newest = max(self._newest, int(rows.times[where].max()))
        if spans:
            self._bytes += size
            self._parts.append(replace(part, spans=spans))

    def _note(self, group: str, part: int, where: Integers, rows: Rows) -> tuple[int, int]:
        """Samples the places of rows; returns the first and the last key."""
        source = rows.sequences if rows.sequences is not None else rows.times
        keys = source[where]
        order = np.argsort(keys, kind="stable")[:: self._stride]
        places = np.stack([keys[order], np.full(len(order), part), rows.first + where[order]])
        if self._ordered:
            # Messages with one sequence are one message: no bound is between them.
            places[1:] = -1
        self._samples.setdefault(group, []).append(places)
        return int(keys.min()), int(keys.max())

    def _read_streams(self, rows: Rows) -> frozenset[str]:
        found = frozenset(rows.streams or ())
        return frozenset(stream for stream in found if any(covers(pattern, stream) for pattern in self._patterns))

    def index(self, history: History, own: Sequence[str]) -> Index:
        """The order.

        Raises:
            HistoryError: No message belongs to the history.
        """
        if not self._messages:
            raise HistoryError(
                f"history {', '.join(history.paths)}: no message in it belongs to the streams {', '.join(self._patterns)}"
                + (" and is before until" if history.until is not None else "")
            )
        slices = max(-(-self._messages // self._slice_messages), min(self._messages, self._bytes // SLICE_BYTES))
        until = history.until
        if until is None and not self._ordered:
            until = self._newest + 1
        repeated = Repeated(until=until, patterns=tuple(own)) if until is not None else Repeated(dict(self._streams))
        return Index(
            request_of(history),
            self._names,
            self._ordered,
            history.until,
            tuple(self._parts),
            {group: _bounds(np.concatenate(found, axis=1), slices) for group, found in self._samples.items()},
            slices,
            self._messages,
            tuple(sorted(self._streams)),
            repeated,
        )


def request_of(history: History) -> dict[str, object]:
    """What identifies a history: the paths, the columns and the end."""
    return {"paths": list(history.paths), "columns": dict(history.columns), "until": history.until}


def _bounds(samples: Integers, slices: int) -> list[Place]:
    """The places that divide the messages of a group into slices of about the same size."""
    keys, parts, rows = samples[:, np.lexsort((samples[2], samples[1], samples[0]))]
    at = [number * len(keys) // slices for number in range(1, slices)]
    return [(int(keys[i]), int(parts[i]), int(rows[i])) for i in at]


def _pieces(file: File) -> Iterator[tuple[int, int, int]]:
    """The parts that a file is divided into, with their sizes: row groups, or bytes between the ends of lines."""
    if file.kind == PARQUET:
        yield from ((number, number + 1, size) for number, (rows, size) in enumerate(row_groups(file)) if rows)
    elif file.kind == PACKED_LINES:
        yield 0, _WHOLE, _UNPACKED * file.size
    else:
        assert file.kind == LINES
        begin = 0
        with file.open() as opened:
            while begin < file.size:
                end = min(begin + LINES_BYTES, file.size)
                opened.seek(end)
                while end < file.size:
                    more = opened.read(65_536)
                    newline = more.find(b"\n")
                    if newline >= 0:
                        end += newline + 1
                        break
                    end += len(more)
                yield begin, end, end - begin
                begin = end
