"""Pages of rows, as the server packs them, and the batches and bad rows that they consist of. Pure functions."""

import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.connectors.postgresql.headers import headers_of
from headrace.connectors.postgresql.layout import MAX_BYTES
from headrace.sdk import NULL, Batch, Headers, InvalidMessage, Message, Packed

MAX_ROWS = 8192
"""The number of rows of a frame of the SDK, so that a page becomes one frame."""

_FROM_1970_TO_2000 = 946_684_800_000_000
_NULL_TIME = -(2**63)
_INFINITY = 2**63 - 1
# Spark's own functions and Python's know the years from 1 to 9999.
_FIRST_TIME, _LAST_TIME = -62_135_596_800_000_000, 253_402_300_799_999_999
_NO_YEAR = "its event time is outside the years from 1 to 9999"


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be a message.

    Attributes:
        message: The part of it that can be read.
        error: Its error.
    """

    message: Message
    error: InvalidMessage

    @classmethod
    def of(cls, number: int, value: bytes | None, key: bytes | None, reason: str) -> "BadRow":
        """Returns a row with what can be read of it."""
        return cls(Message(value, key, sequence=number), InvalidMessage(f"row {number}: {reason}"))


Piece = Batch | BadRow


@dataclass(frozen=True, slots=True)
class Page:
    """Consecutive rows, in columns.

    Attributes:
        sequences: Their sequences.
        values: Their values.
        keys: Their keys; None if there is no such column.
        event_times: Their event times, likewise.
        headers: Their headers as JSON, likewise.
    """

    sequences: "array[int]"
    values: Packed
    keys: Packed | None
    event_times: "array[int] | None"
    headers: Sequence[str | None] | None

    @property
    def next_rows(self) -> int:
        """The number of rows to request for the next page, if they are as large as these."""
        size = len(self.values.data) + (len(self.keys.data) if self.keys else 0)
        return min(MAX_ROWS, len(self.sequences) * MAX_BYTES // max(size, 1) + 1)

    def part(self, start: int, stop: int) -> "Page":
        """Returns some of the rows."""
        if (start, stop) == (0, len(self.sequences)):
            return self
        return Page(
            self.sequences[start:stop],
            _part(self.values, start, stop),
            None if self.keys is None else _part(self.keys, start, stop),
            None if self.event_times is None else self.event_times[start:stop],
            None if self.headers is None else self.headers[start:stop],
        )

    def pieces(self, cursor: bytes | None = None) -> Iterator[Piece]:
        """Yields the rows as batches of the SDK with a cursor, and bad rows in their places between them."""
        wrong = self._wrong_times()
        headers: list[Headers | None] | None = None
        if self.headers is not None:
            headers = []
            for at, text in enumerate(self.headers):
                try:
                    headers.append(headers_of(text))
                except InvalidMessage as error:
                    wrong[at] = str(error)
                    headers.append(None)
        start = 0
        for at in sorted(wrong):
            if at > start:
                yield self.part(start, at)._batch(headers and headers[start:at], cursor)
            row = self.part(at, at + 1)
            yield BadRow.of(row.sequences[0], _only(row.values), _only(row.keys), wrong[at])
            start = at + 1
        if start < len(self.sequences):
            yield self.part(start, len(self.sequences))._batch(headers and headers[start:], cursor)

    def _wrong_times(self) -> dict[int, str]:
        times = self.event_times
        if not times or (max(times) <= _LAST_TIME and min(times) >= _FIRST_TIME):
            return {}
        return {at: _NO_YEAR for at, time in enumerate(times) if time > _LAST_TIME or _NULL_TIME != time < _FIRST_TIME}

    def _batch(self, headers: Sequence[Headers | None] | None, cursor: bytes | None) -> Batch:
        first, last = self.sequences[0], self.sequences[-1]
        dense = last - first + 1 == len(self.sequences)
        return Batch(
            self.values,
            keys=self.keys,
            event_times=self.event_times,
            headers=headers,
            sequences=range(first, last + 1) if dense else self.sequences.tolist(),
            cursor=cursor,
        )


def read_page(row: tuple[Any, ...]) -> Page | None:
    """Returns the result of the statement for a page; None if there were no rows."""
    numbers, values, value_lengths, keys, key_lengths, event_times, headers = row
    if numbers is None:
        return None
    return Page(
        _unpacked("q", numbers),
        Packed(values or b"", _unpacked("I", value_lengths)),
        None if key_lengths is None else Packed(keys or b"", _unpacked("I", key_lengths)),
        None if event_times is None else _times(_unpacked("q", event_times)),
        headers,
    )


def _unpacked(typecode: str, data: bytes) -> "array[int]":
    """Numbers from bytes in network byte order."""
    numbers: array[int] = array(typecode, data)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def _times(since_2000: "array[int]") -> "array[int]":
    """Microseconds since 1970 instead of 2000; infinite times become null. Too late ones stay too late, if they do not fit."""
    try:
        if _NULL_TIME not in since_2000 and _INFINITY not in since_2000:
            return array("q", [time + _FROM_1970_TO_2000 for time in since_2000])
        endless = (_NULL_TIME, _INFINITY)
        return array("q", [_NULL_TIME if time in endless else time + _FROM_1970_TO_2000 for time in since_2000])
    except OverflowError:
        latest = _INFINITY - _FROM_1970_TO_2000
        return _times(array("q", [time if time == _INFINITY else min(time, latest) for time in since_2000]))


def _part(column: Packed, start: int, stop: int) -> Packed:
    lengths = column.lengths[start:stop]
    at = _size(column.lengths[:start])
    return Packed(column.data[at : at + _size(lengths)], lengths)


def _size(lengths: "array[int]") -> int:
    return sum(lengths) - NULL * lengths.count(NULL)


def _only(column: Packed | None) -> bytes | None:
    return None if column is None or column.lengths[0] == NULL else column.data
