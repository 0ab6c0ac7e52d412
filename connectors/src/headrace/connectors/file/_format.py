"""Encodes rows as bytes of a file, mostly without a Python loop over messages. Pure functions."""

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from itertools import accumulate, chain, repeat
from json.encoder import encode_basestring

from headrace.connectors._records import MAX_RECORD_BYTES
from headrace.sdk import NULL, Headers, Message, Packed, Refused, Rows

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NULL_TIME = -(2**63)
_NO_VALUE = '"value":null'


class SinkFormat(Enum):
    """The format of messages in a file that a sink writes."""

    JSON = "json"
    """One JSON object per line, with all parts of the message."""
    LINES = "lines"
    """The value, then a line feed."""
    LENGTH_PREFIXED = "length-prefixed"
    """The length of the value as a big-endian u32, then the value."""

    @property
    def suffix(self) -> str:
        """The suffix of the names of such files."""
        return {SinkFormat.JSON: ".jsonl", SinkFormat.LINES: ".lines", SinkFormat.LENGTH_PREFIXED: ".bin"}[self]


@dataclass(frozen=True, slots=True)
class Encoded:
    """Encoded rows.

    Attributes:
        data: The bytes of all messages that are not refused.
        refused: The messages that the format cannot represent, by their positions in the part.
    """

    data: bytes
    refused: dict[int, Refused]


def encode(rows: Rows, format_: SinkFormat) -> Encoded:
    """Encodes rows."""
    if format_ is SinkFormat.JSON:
        return Encoded(json_lines(rows), {})
    # Imported only when needed: the source and the JSON format do not need Arrow.
    from headrace.connectors.file import plain as plain

    lines = format_ is SinkFormat.LINES
    of_values, fits = (plain.lines, plain.fit_lines) if lines else (plain.prefixed, plain.fit_prefixed)
    if fits(rows.values):
        return Encoded(of_values(rows.values), {})
    messages = enumerate(rows.messages(), rows.first)
    refused = {place: Refused(why) for place, message in messages if (why := _misfit(message, format_))}
    left = rows.without(refused)
    return Encoded(b"" if left is None else of_values(left.values), refused)


def json_lines(rows: Rows) -> bytes:
    """Returns each message as a line of JSON. Bytes that are not UTF-8 are in base64, under a name that ends with `_base64`."""
    # Each column contributes its text to each line; a null is omitted, except for the value.
    columns: list[Iterable[str]] = [_members("value", rows.values, null=_NO_VALUE)]
    if rows.keys is not None:
        columns.insert(0, _members("key", rows.keys, after=","))
    if rows.event_times is not None:
        columns.append("" if time == _NULL_TIME else f',"event_time":{_iso(time)}' for time in rows.event_times)
    if rows.message_ids is not None:
        columns.append(_members("message_id", rows.message_ids, before=","))
    if rows.frame.header_counts:
        columns.append(_headers(message.headers) for message in rows.messages())
    lines = chain.from_iterable(zip(repeat("{"), *columns, repeat("}\n")))
    return "".join(lines).encode()


def _members(name: str, column: Packed, *, before: str = "", after: str = "", null: str = "") -> Iterator[str]:
    """Yields one member of each line's object; runs in C if all entries are ASCII and none is null."""
    if NULL not in column.lengths and column.data.isascii():
        ends = list(accumulate(column.lengths, initial=0))
        texts = map(column.data.decode().__getitem__, map(slice, ends[:-1], ends[1:]))
        return map(f'{before}"{name}":%s{after}'.__mod__, map(encode_basestring, texts))
    return (null if entry is None else f"{before}{_member(name, entry)}{after}" for entry in _entries_or_null(column))


def _member(name: str, data: bytes) -> str:
    """Converts bytes to a member: as text if they are UTF-8, or else in base64."""
    try:
        return f'"{name}":{encode_basestring(data.decode())}'
    except UnicodeDecodeError:
        return f'"{name}_base64":"{base64.b64encode(data).decode()}"'


def _headers(headers: Headers | None) -> str:
    """Headers as a member, with the comma before it."""
    if not headers:
        return ""
    pairs = ((f'"name":{encode_basestring(name)}', value) for name, value in headers)
    texts = ("{" + name + "," + (_NO_VALUE if value is None else _member("value", value)) + "}" for name, value in pairs)
    return f',"headers":[{",".join(texts)}]'


def _iso(microseconds: int) -> str:
    """Returns a time in ISO 8601; a time out of the calendar's range stays a number."""
    try:
        return f'"{(_EPOCH + timedelta(microseconds=microseconds)).isoformat()[:-6]}Z"'
    except OverflowError:
        return str(microseconds)


def _entries_or_null(column: Packed) -> Iterator[bytes | None]:
    """Yields the entries of a column that may be null."""
    at = 0
    for length in column.lengths:
        if length == NULL:
            yield None
        else:
            yield column.data[at : at + length]
            at += length


def _misfit(message: Message, format_: SinkFormat) -> str:
    """Returns the reason why a message cannot be written; empty if it can."""
    if message.value is None:
        return f"the message has no value, which format {format_.value} cannot represent"
    if format_ is SinkFormat.LINES and b"\n" in message.value:
        return "the value contains a line feed, which format lines cannot represent"
    if format_ is SinkFormat.LENGTH_PREFIXED and len(message.value) > MAX_RECORD_BYTES:
        return f"the value has {len(message.value)} bytes, and format length-prefixed allows {MAX_RECORD_BYTES}"
    return ""
