"""Rows as bytes of a file. Pure functions, without touching single messages where that can be avoided."""

import base64
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from itertools import accumulate, chain

from headrace.connectors._records import MAX_RECORD_BYTES
from headrace.sdk import NULL, Message, Packed, Refused, Rows

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SinkFormat(Enum):
    """How messages follow one another in a file that a sink writes."""

    JSON = "json"
    """A JSON object in each line, with everything that the message has."""
    LINES = "lines"
    """The value, then a line feed."""
    LENGTH_PREFIXED = "length-prefixed"
    """The length of the value as a big-endian u32, then the value."""

    @property
    def suffix(self) -> str:
        """How names of such files end."""
        return {SinkFormat.JSON: ".jsonl", SinkFormat.LINES: ".lines", SinkFormat.LENGTH_PREFIXED: ".bin"}[self]


@dataclass(frozen=True, slots=True)
class Encoded:
    """Rows in a format.

    Attributes:
        data: The bytes of all that are not refused.
        refused: The messages that the format cannot hold, by their places in the part.
    """

    data: bytes
    refused: dict[int, Refused]


def encode(rows: Rows, format_: SinkFormat) -> Encoded:
    """Turns rows into bytes."""
    if format_ is SinkFormat.JSON:
        return Encoded(b"".join(map(json_line, rows.messages())), {})
    of_values, fits = _PLAIN[format_]
    if fits(rows.values):
        return Encoded(of_values(rows.values), {})
    messages = enumerate(rows.messages(), rows.first)
    refused = {place: Refused(why) for place, message in messages if (why := _misfit(message, format_))}
    left = rows.without(refused)
    return Encoded(b"" if left is None else of_values(left.values), refused)


def json_line(message: Message) -> bytes:
    """A message as a line of JSON. Bytes that are not UTF-8 are in base64, under a name that ends with `_base64`."""
    fields: dict[str, object] = {}
    if message.key is not None:
        fields |= _text("key", message.key)
    fields |= _text("value", message.value)
    if message.event_time is not None:
        assert isinstance(message.event_time, int)
        fields["event_time"] = _iso(message.event_time)
    if message.message_id is not None:
        fields["message_id"] = message.message_id
    if message.headers:
        fields["headers"] = [{"name": name, **_text("value", value)} for name, value in message.headers]
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _text(name: str, data: bytes | None) -> dict[str, str | None]:
    """Bytes as text, else in base64."""
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data or b"").decode()}


def _iso(microseconds: int) -> str | int:
    """A time as ISO 8601; one that no calendar has stays a number."""
    try:
        return (_EPOCH + timedelta(microseconds=microseconds)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return microseconds


def _lines(values: Packed) -> bytes:
    """Each value with a line feed."""
    return b"\n".join(chain(_entries(values), (b"",)))


def _prefixed(values: Packed) -> bytes:
    """Each value after its length."""
    lengths = values.lengths[:]
    if sys.byteorder == "little":
        lengths.byteswap()
    prefixes = lengths.tobytes()
    starts = range(0, len(prefixes), 4)
    return b"".join(
        chain.from_iterable(zip(_cuts(prefixes, starts, range(4, len(prefixes) + 4, 4)), _entries(values), strict=True))
    )


def _entries(values: Packed) -> Iterator[bytes]:
    """The values, none of them null; runs in C."""
    ends = list(accumulate(values.lengths, initial=0))
    return _cuts(values.data, ends[:-1], ends[1:])


def _cuts(data: bytes, starts: range | list[int], ends: range | list[int]) -> Iterator[bytes]:
    """Pieces of `data`; runs in C."""
    return map(data.__getitem__, map(slice, starts, ends))


def _fit_lines(values: Packed) -> bool:
    """True where all values can be lines."""
    return b"\n" not in values.data and NULL not in values.lengths


def _fit_prefixed(values: Packed) -> bool:
    """True where all values can have a prefix; what is larger could not be read again, and NULL is larger."""
    return max(values.lengths) <= MAX_RECORD_BYTES


def _misfit(message: Message, format_: SinkFormat) -> str:
    """Why a message cannot be written; empty where it can."""
    if message.value is None:
        return f"the message has no value, which format {format_.value} cannot say"
    if format_ is SinkFormat.LINES and b"\n" in message.value:
        return "the value has a line feed in it, which format lines cannot hold"
    if format_ is SinkFormat.LENGTH_PREFIXED and len(message.value) > MAX_RECORD_BYTES:
        return f"the value has {len(message.value)} bytes, and format length-prefixed holds {MAX_RECORD_BYTES}"
    return ""


_PLAIN: dict[SinkFormat, tuple[Callable[[Packed], bytes], Callable[[Packed], bool]]] = {
    SinkFormat.LINES: (_lines, _fit_lines),
    SinkFormat.LENGTH_PREFIXED: (_prefixed, _fit_prefixed),
}
