"""Parses AMQP's properties and header tables. Pure functions.

Pika's own decoder turns floating-point headers into integers.
"""

import base64
import json
import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

Header = tuple[str, bytes | None]

_U16, _U32, _I32, _U64 = (struct.Struct(">" + code) for code in "HIiQ")
_HEADERS, _DELIVERY_MODE, _PRIORITY, _TIMESTAMP = (1 << bit for bit in (13, 12, 11, 6))
_TEXTS_BEFORE = ((1 << 15, "content-type"), (1 << 14, "content-encoding"))
_TEXTS_BETWEEN = ((1 << 10, "correlation-id"), (1 << 9, "reply-to"), (1 << 8, "expiration"), (1 << 7, "message-id"))
_TEXTS_AFTER = ((1 << 5, "type"), (1 << 4, "user-id"), (1 << 3, "app-id"))
# A short integer is `s` in RabbitMQ, and `U` in the standard.
_NUMBERS = {code: struct.Struct(">" + format_) for code, format_ in zip(b"bBsUuIilLfd", "bBhhHiIqqfd", strict=True)}
OFFSET = "x-stream-offset"
"""The header in which a stream queue stores the offset of a message."""
_OFFSET = b"\x0f" + OFFSET.encode() + b"l"
_TRUTH, _TEXT, _BINARY, _DECIMAL, _TIME, _TABLE, _LIST, _VOID = b"tSxDTFAV"


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of a message.

    Attributes:
        texts: The text properties, and the priority in decimal, by their AMQP names.
        timestamp: In seconds since 1970-01-01 UTC, or None.
        headers: The header table.
    """

    texts: dict[str, bytes]
    timestamp: int | None
    headers: list[Header]


def read_properties(data: bytes) -> Properties:
    """Parses the properties of a content header.

    Raises:
        ValueError: They are not valid AMQP.
    """
    texts: dict[str, bytes] = {}
    headers: list[Header] = []
    timestamp = None
    try:
        (flags,) = _U16.unpack_from(data)
        at = _read_texts(data, 2, flags, _TEXTS_BEFORE, texts)
        if flags & _HEADERS:
            pairs, at = _table(data, at)
            headers = [(name, as_bytes(value)) for name, value in pairs]
        if flags & _DELIVERY_MODE:
            at += 1
        if flags & _PRIORITY:
            texts["priority"] = b"%d" % data[at]
            at += 1
        at = _read_texts(data, at, flags, _TEXTS_BETWEEN, texts)
        if flags & _TIMESTAMP:
            (timestamp,) = _U64.unpack_from(data, at)
            at += 8
        _read_texts(data, at, flags, _TEXTS_AFTER, texts)
    except (struct.error, IndexError, RecursionError) as error:
        raise ValueError(f"the properties of a message cannot be parsed: {error}") from error
    return Properties(texts, timestamp, headers)


def take_offset(data: bytes) -> tuple[int, bytes] | None:
    """Removes the offset that a stream queue adds to a message's headers; returns it and the other properties, or None.

    If other headers cannot be parsed, the offset is still found, and the properties are unchanged.

    Raises:
        ValueError: The headers cannot be parsed, and there is no offset among them.
    """
    try:
        (flags,) = _U16.unpack_from(data)
        table = _read_texts(data, 2, flags, _TEXTS_BEFORE, {})
        if not flags & _HEADERS:
            return None
        (size,) = _U32.unpack_from(data, table)
        at = start = table + 4
        end = start + size
        # It is the last header, but that is not guaranteed.
        if data[end - len(_OFFSET) - 8 : end - 8] == _OFFSET:
            at = end - len(_OFFSET) - 8
        while at < end:
            name, value_at = short_text(data, at)
            value, after = _value(data, value_at)
            if name == OFFSET.encode() and type(value) is int:
                return value, data[:table] + _U32.pack(size - after + at) + data[start:at] + data[after:]
            at = after
    except (struct.error, IndexError, RecursionError, ValueError) as error:
        place = data.rfind(_OFFSET) + len(_OFFSET)
        if place >= len(_OFFSET) and place + 8 <= len(data):
            return int.from_bytes(data[place : place + 8], "big", signed=True), data
        raise ValueError(f"the headers of a message cannot be parsed: {error}") from error
    return None


def short_text(data: bytes, at: int) -> tuple[bytes, int]:
    """Reads a short string; returns it and where it ends."""
    start = at + 1
    end = start + data[at]
    return data[start:end], end


def as_bytes(value: Any) -> bytes | None:
    """Returns the value of a field as a header value: texts unchanged, numbers in decimal, tables and lists as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, list | dict):
        return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":")).encode()
    return str(value).encode()


def _read_texts(data: bytes, at: int, flags: int, names: tuple[tuple[int, str], ...], texts: dict[str, bytes]) -> int:
    """Reads the text properties that are present; returns where they end."""
    for flag, name in names:
        if flags & flag:
            texts[name], at = short_text(data, at)
    return at


def _table(data: bytes, at: int) -> tuple[list[tuple[str, Any]], int]:
    """Reads a table; returns its fields and where it ends."""
    end = at + 4 + _U32.unpack_from(data, at)[0]
    at += 4
    pairs = []
    while at < end:
        name, at = short_text(data, at)
        value, at = _value(data, at)
        pairs.append((name.decode(errors="backslashreplace"), value))
    return pairs, end


def _value(data: bytes, at: int) -> tuple[Any, int]:
    """Reads a field; returns its value and where it ends."""
    kind = data[at]
    at += 1
    if kind in (_TEXT, _BINARY):
        start = at + 4
        end = start + _U32.unpack_from(data, at)[0]
        return data[start:end], end
    if number := _NUMBERS.get(kind):
        return number.unpack_from(data, at)[0], at + number.size
    if kind == _TRUTH:
        return data[at] != 0, at + 1
    if kind == _VOID:
        return None, at
    if kind == _TIME:
        return _time(_U64.unpack_from(data, at)[0]), at + 8
    if kind == _DECIMAL:
        return Decimal(_I32.unpack_from(data, at + 1)[0]).scaleb(-data[at]), at + 5
    if kind == _TABLE:
        pairs, end = _table(data, at)
        return dict(pairs), end
    if kind == _LIST:
        return _list(data, at)
    raise ValueError(f"a header is of the unknown type {chr(kind)!r}")


def _list(data: bytes, at: int) -> tuple[list[Any], int]:
    """Reads a list; returns it and where it ends."""
    end = at + 4 + _U32.unpack_from(data, at)[0]
    at += 4
    values = []
    while at < end:
        value, at = _value(data, at)
        values.append(value)
    return values, end


def _time(seconds: int) -> str | int:
    """Returns a time in ISO 8601; the number if the year is out of range."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return seconds


def _plain(value: Any) -> Any:
    """Returns a value for JSON; bytes that are not valid UTF-8 are in base64."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return str(value) if isinstance(value, Decimal) else value
