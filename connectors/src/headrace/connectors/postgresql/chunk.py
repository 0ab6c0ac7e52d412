"""Converts rows to arrays that PostgreSQL accepts, without a Python loop over messages. Pure functions."""

import json
import sys
from array import array
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from struct import Struct
from typing import Literal

from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

from headrace.sdk import NULL, Headers, Packed, Rows

MAX_BYTES = 1 << 20
MAX_ROWS = 8192

_BYTEA, _BIGINT = 17, 20
# Of an array: dimensions, whether there may be nulls, the type of its elements, how many there are, and the number of the first.
_HEAD = Struct(">iiIii")
_NULL_ELEMENT = b"\xff\xff\xff\xff"
_NULL_TIME = -(2**63)


@dataclass(frozen=True, slots=True)
class Elements:
    """An array in PostgreSQL's binary format."""

    data: bytes


class ElementsDumper(Dumper):
    """Sends such an array unchanged."""

    format = Format.BINARY

    def dump(self, obj: Elements) -> Buffer:
        """Returns the bytes."""
        return obj.data


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive rows of a part, or of a transaction.

    Attributes:
        first: The number of rows before it.
        rows: The rows.
    """

    first: int
    rows: Sequence[Rows]

    def __len__(self) -> int:
        """Returns the number of rows."""
        return sum(map(len, self.rows))

    @property
    def size(self) -> int:
        """The approximate size, in bytes."""
        return sum(some.frame.ByteSize() for some in self.rows)

    def missing(self, column: Literal["keys", "values"], reason: str) -> dict[int, str]:
        """Returns the reason for each message that lacks something, by position, counted from 1."""
        found: dict[int, str] = {}
        start = 1
        for some in self.rows:
            entries = some.keys if column == "keys" else some.values
            if entries is None:
                found |= dict.fromkeys(range(start, start + len(some)), reason)
            elif NULL in entries.lengths:
                found |= {place: reason for place, length in enumerate(entries.lengths, start) if length == NULL}
            start += len(some)
        return found

    def columns(self) -> tuple[Elements, Elements, Elements, Elements, Elements]:
        """Keys, values, event times, message ids and headers; the latter as JSON lists of names and values.

        Texts are bytes: if one of them is not text, the server can refuse its message alone.
        """
        ids = (_strings(some.message_ids, len(some)) for some in self.rows)
        return (
            self._array(_BYTEA, (_strings(some.keys, len(some)) for some in self.rows)),
            self._array(_BYTEA, (_strings(some.values, len(some)) for some in self.rows)),
            self._array(_BIGINT, map(_event_times, self.rows)),
            self._array(_BYTEA, ids),
            self._array(_BYTEA, map(_headers, self.rows)),
        )

    def _array(self, element_type: int, elements: Iterator[bytes]) -> Elements:
        return Elements(_HEAD.pack(1, 1, element_type, len(self), 1) + b"".join(elements))


async def chunks(rows: AsyncIterator[Rows]) -> AsyncIterator[Chunk]:
    """Collects rows into chunks of a suitable size."""
    first, count, size = 0, 0, 0
    gathered: list[Rows] = []
    async for some in rows:
        if gathered and (count + len(some) > MAX_ROWS or size + some.frame.ByteSize() > MAX_BYTES):
            yield Chunk(first, gathered)
            first, count, size, gathered = first + count, 0, 0, []
        gathered.append(some)
        count += len(some)
        size += some.frame.ByteSize()
    if gathered:
        yield Chunk(first, gathered)


def _strings(column: Packed | None, count: int) -> bytes:
    """Returns each entry preceded by its length: the binary format of an element, null or not."""
    if column is None:
        return _NULL_ELEMENT * count
    prefixes = _big_endian(column.lengths)
    ends = list(accumulate((0 if length == NULL else length for length in column.lengths), initial=0))
    before = map(prefixes.__getitem__, map(slice, range(0, 4 * count, 4), range(4, 4 * count + 4, 4)))
    entries = map(column.data.__getitem__, map(slice, ends[:-1], ends[1:]))
    return b"".join(chain.from_iterable(zip(before, entries, strict=True)))


def _event_times(rows: Rows) -> bytes:
    if rows.event_times is None:
        return _NULL_ELEMENT * len(rows)
    times = _big_endian(rows.event_times)
    cuts = (times[at : at + 8] for at in range(0, len(times), 8))
    pairs = zip(cuts, rows.event_times, strict=True)
    return b"".join(_NULL_ELEMENT if time == _NULL_TIME else b"\0\0\0\x08" + data for data, time in pairs)


def _headers(rows: Rows) -> bytes:
    if not rows.frame.header_counts:
        return _NULL_ELEMENT * len(rows)
    texts = [_json(message.headers) for message in rows.messages()]
    return b"".join(_NULL_ELEMENT if text is None else len(text).to_bytes(4, "big") + text for text in texts)


def _json(headers: Headers | None) -> bytes | None:
    """Headers as a JSON list. Bytes that are not UTF-8 are in base64, under another name."""
    return json.dumps([_header(name, value) for name, value in headers]).encode() if headers else None


def _header(name: str, value: bytes | None) -> dict[str, str | None]:
    try:
        return {"name": name, "value": None if value is None else value.decode()}
    except UnicodeDecodeError:
        return {"name": name, "value_base64": b64encode(value or b"").decode()}


def _big_endian(numbers: "array[int]") -> bytes:
    if sys.byteorder == "little":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()
