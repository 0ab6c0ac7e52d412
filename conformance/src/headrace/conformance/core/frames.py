"""Messages in the columns of a frame, read and written as the protocol defines them. Pure functions."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.contract.columns import NULL_LENGTH, NULL_TIME, time_outside
from headrace.protocol.v1.frame_pb2 import Frame


class MalformedFrame(ValueError):
    """The columns of a frame contradict each other, or the protocol."""


@dataclass(frozen=True)
class Message:
    """One message of a stream, or one row of a part. Absent fields are None."""

    value: bytes | None
    key: bytes | None = None
    sequence: int = 0
    event_time: int | None = None
    message_id: str | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def __str__(self) -> str:
        text = repr(self.value)
        return f"sequence {self.sequence}: {text if len(text) <= 60 else text[:57] + '...'}"


def decode(frame: Frame) -> list[Message]:
    """The messages of a frame.

    Raises:
        MalformedFrame: A column has the wrong number of entries, lengths that do not add up to its data, or text that is not
            UTF-8; the text names the column.
    """
    count = frame.count
    if count < 1:
        if not frame.HasField("cursor"):
            raise MalformedFrame("count is 0, and there is no cursor; a frame has at least one message, or a cursor alone")
        if filled := [
            field.name for field, _ in frame.ListFields() if field.name not in ("stream_id", "first_sequence", "cursor")
        ]:
            raise MalformedFrame(f"count is 0, and {filled[0]} is not empty; a frame without messages has a cursor alone")
        return []
    if not frame.value_lengths:
        raise MalformedFrame("value_lengths is empty; it is required")
    values = _entries("value", frame.values, frame.value_lengths, count)
    keys = _optional("key", frame.keys, frame.key_lengths, count)
    ids = [_text("message_ids", entry) for entry in _optional("message_id", frame.message_ids, frame.message_id_lengths, count)]
    times = _numbers("event_times", frame.event_times, "<q", count) if frame.event_times else [NULL_TIME] * count
    if (at := time_outside(frame.event_times)) is not None:
        raise MalformedFrame(f"event_times has {times[at]}, which is not within the years 1 to 9999")
    columns = zip(sequences(frame), values, keys, times, ids, _headers(frame), strict=True)
    return [Message(v, k, s, None if t == NULL_TIME else t, i, h) for s, v, k, t, i, h in columns]


def values_alone(frame: Frame) -> list[Message]:
    """The messages of a malformed frame, with their values alone; none if even those cannot be read."""
    try:
        values = _entries("value", frame.values, frame.value_lengths, frame.count)
        return [Message(value, sequence=number) for number, value in zip(sequences(frame), values, strict=True)]
    except MalformedFrame:
        return []


def sequences(frame: Frame) -> list[int]:
    """The sequences of a frame's messages.

    Raises:
        MalformedFrame: The distances are not one fewer than the messages, or one is 0.
    """
    found = [frame.first_sequence]
    if not frame.sequence_deltas:
        return list(range(frame.first_sequence, frame.first_sequence + frame.count))
    for delta in _numbers("sequence_deltas", frame.sequence_deltas, "<I", frame.count - 1):
        if delta == 0:
            raise MalformedFrame("sequence_deltas has a 0; each distance is at least 1")
        found.append(found[-1] + delta)
    return found


def encode(rows: Sequence[Message]) -> Frame:
    """A frame with these messages, whose sequences follow one another. Columns that are entirely absent are left out."""
    frame = Frame(first_sequence=rows[0].sequence, count=len(rows))
    frame.values, frame.value_lengths = _joined([row.value for row in rows])
    if any(row.key is not None for row in rows):
        frame.keys, frame.key_lengths = _joined([row.key for row in rows])
    if any(row.event_time is not None for row in rows):
        times = (NULL_TIME if row.event_time is None else row.event_time for row in rows)
        frame.event_times = b"".join(struct.pack("<q", time) for time in times)
    if any(row.message_id is not None for row in rows):
        ids = [None if row.message_id is None else row.message_id.encode() for row in rows]
        frame.message_ids, frame.message_id_lengths = _joined(ids)
    if any(row.headers for row in rows):
        frame.header_counts = b"".join(struct.pack("<I", len(row.headers)) for row in rows)
        pairs = [pair for row in rows for pair in row.headers]
        frame.header_names, frame.header_name_lengths = _joined([name.encode() for name, _ in pairs])
        frame.header_values, frame.header_value_lengths = _joined([value for _, value in pairs])
    return frame


def _joined(entries: Sequence[bytes | None]) -> tuple[bytes, bytes]:
    lengths = (NULL_LENGTH if entry is None else len(entry) for entry in entries)
    return b"".join(entry or b"" for entry in entries), b"".join(struct.pack("<I", length) for length in lengths)


def _optional(column: str, data: bytes, lengths: bytes, count: int) -> list[bytes | None]:
    """The entries of a column that may be empty, which is null for each message."""
    if not lengths and not data:
        return [None] * count
    return _entries(column, data, lengths, count)


def _entries(column: str, data: bytes, lengths: bytes, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    at = 0
    for length in _numbers(f"{column}_lengths", lengths, "<I", count):
        found.append(None if length == NULL_LENGTH else data[at : at + length])
        at += 0 if length == NULL_LENGTH else length
    if at != len(data):
        raise MalformedFrame(f"{column}_lengths add up to {at} bytes, and {column}s has {len(data)}")
    return found


def _headers(frame: Frame) -> Iterator[tuple[tuple[str, bytes | None], ...]]:
    """The headers of each message."""
    counts = [0] * frame.count
    if frame.header_counts:
        counts = _numbers("header_counts", frame.header_counts, "<I", frame.count)
    total = sum(counts)
    names = _entries("header_name", frame.header_names, frame.header_name_lengths, total)
    values = _entries("header_value", frame.header_values, frame.header_value_lengths, total)
    if None in names:
        raise MalformedFrame("header_name_lengths has a null; names cannot be null")
    pairs = zip((_text("header_names", name) or "" for name in names), values, strict=True)
    for count in counts:
        yield tuple(next(pairs) for _ in range(count))


def _text(column: str, entry: bytes | None) -> str | None:
    try:
        return None if entry is None else entry.decode()
    except UnicodeDecodeError:
        raise MalformedFrame(f"{column}: {entry!r} is not UTF-8") from None


def _numbers(column: str, data: bytes, form: str, count: int) -> list[int]:
    size = struct.calcsize(form)
    if len(data) != size * count:
        raise MalformedFrame(f"{column} has {len(data)} bytes, and {size * count} are needed for {count} entries of {size}")
    return [number for (number,) in struct.iter_unpack(form, data)]
