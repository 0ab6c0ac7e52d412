"""Encodes columns as frames, and decodes frames. Pure functions, no I/O."""

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator

from headrace.contract.columns import MAX_DELTA, NULL_TIME
from headrace.contract.columns import NULL_LENGTH as NULL
from headrace.protocol.v1.frame_pb2 import Frame
from headrace.sdk.wire._columns import Column, Columns, little_endian
from headrace.sdk.wire._message import Message

assert array("I").itemsize == 4
assert array("q").itemsize == 8


def frame_size(columns: Columns, stream_id: int, start: int, stop: int) -> int:
    """Returns the size in bytes of the serialized Frame of messages `start` to `stop` (exclusive); equals `Frame.ByteSize()`."""
    count = stop - start
    size = _int_field(stream_id) + _int_field(columns.sequences[start] if start else columns.first) + _int_field(count)
    if _has_gaps(columns, start, stop):
        size += _bytes_field(4 * (count - 1))
    for column in (columns.keys, columns.values, columns.message_ids):
        if column is not None:
            size += _bytes_field(_data_size(column, start, stop)) + _bytes_field(4 * count)
    if columns.event_times is not None:
        size += _bytes_field(8 * count)
    if columns.header_counts is not None:
        size += _headers_size(columns, start, stop)
    cursor = _cursor(columns, start, stop)
    return size + (0 if cursor is None else _bytes_field(len(cursor), always=True, tag=2))


def fit(columns: Columns, stream_id: int, start: int, max_bytes: int, max_messages: int) -> tuple[int, int]:
    """Returns the end index of the frame to cut at `start`, and its size in bytes; `start` and 0 if no message fits."""
    stop = min(columns.count, start + max_messages)
    if columns.deltas.typecode == "Q":
        stop = min(stop, _before_wide_gap(columns, start))
    if stop <= start:
        return start, 0
    if (size := frame_size(columns, stream_id, start, stop)) <= max_bytes:
        return stop, size
    # Only some end indexes include a cursor, so the size is not monotonic: reserve room for the largest cursor.
    room = max_bytes - max((len(cursor) + 4 for _, cursor in columns.cursors), default=0)
    candidates = range(start + 1, stop + 1)
    fitting = bisect_right(candidates, room, key=lambda end: frame_size(columns, stream_id, start, end))
    stop = start + max(fitting, 1)
    size = frame_size(columns, stream_id, start, stop)
    return (stop, size) if size <= max_bytes else (start, 0)


def fill_frame(frame: Frame, columns: Columns, stream_id: int, start: int, stop: int) -> None:
    """Writes messages `start` to `stop` (exclusive) into an empty Frame."""
    frame.stream_id = stream_id
    frame.first_sequence = columns.sequences[start] if start else columns.first
    frame.count = stop - start
    if _has_gaps(columns, start, stop):
        frame.sequence_deltas = little_endian(array("I", columns.deltas[start : stop - 1]))
    frame.values, frame.value_lengths = _slice(columns.values, start, stop)
    if columns.keys is not None:
        frame.keys, frame.key_lengths = _slice(columns.keys, start, stop)
    if columns.event_times is not None:
        frame.event_times = little_endian(columns.event_times[start:stop])
    if columns.message_ids is not None:
        frame.message_ids, frame.message_id_lengths = _slice(columns.message_ids, start, stop)
    if columns.header_counts is not None:
        _fill_headers(frame, columns, start, stop)
    cursor = _cursor(columns, start, stop)
    if cursor is not None:
        frame.cursor = cursor


def decode_frame(frame: Frame) -> list[Message]:
    """Decodes a frame into messages, for tests and debugging. The last message gets the frame's cursor."""
    deltas = _unpacked("I", frame.sequence_deltas) or array("I", [1]) * (frame.count - 1)
    sequence = frame.first_sequence
    times = _unpacked("q", frame.event_times) or array("q", [NULL_TIME]) * frame.count
    columns = zip(
        [0, *deltas],
        _entries(frame.values, frame.value_lengths, frame.count),
        _entries(frame.keys, frame.key_lengths, frame.count),
        times,
        _entries(frame.message_ids, frame.message_id_lengths, frame.count),
        _decoded_headers(frame),
        strict=True,
    )
    messages = []
    for at, (delta, value, key, time, message_id, headers) in enumerate(columns, 1):
        sequence += delta
        messages.append(
            Message(
                value=value,
                key=key,
                event_time=None if time == NULL_TIME else time,
                sequence=sequence,
                message_id=None if message_id is None else message_id.decode(),
                headers=headers,
                cursor=frame.cursor if at == frame.count and frame.HasField("cursor") else None,
            )
        )
    return messages


def _has_gaps(columns: Columns, start: int, stop: int) -> bool:
    """Returns whether any delta within the frame is not 1."""
    if not columns.deltas or stop - start == 1:
        return False
    return True if stop - start == columns.count else max(columns.deltas[start : stop - 1]) > 1


def _before_wide_gap(columns: Columns, start: int) -> int:
    """Returns the index of the first message after `start` whose delta is too large for a frame."""
    gaps = (at for at in range(start, columns.count - 1) if columns.deltas[at] > MAX_DELTA)
    return next(gaps, columns.count - 1) + 1


def _cursor(columns: Columns, start: int, stop: int) -> bytes | None:
    """Returns the last cursor within the frame. It may precede the frame's end: messages between are sent again and dropped."""
    if not columns.cursors:
        return None
    at = bisect_right(columns.cursors, stop, key=lambda pair: pair[0]) - 1
    return columns.cursors[at][1] if at >= 0 and columns.cursors[at][0] > start else None


def _data_size(column: Column, start: int, stop: int) -> int:
    """Returns the size in bytes of the entries from `start` to `stop` (exclusive)."""
    if start == 0 and stop == len(column.lengths):
        return len(column.data)
    return column.ends[stop] - column.ends[start]


def _slice(column: Column, start: int, stop: int) -> tuple[bytes, bytes]:
    """Returns the data and packed lengths of the entries from `start` to `stop` (exclusive)."""
    if start == 0 and stop == len(column.lengths):
        return column.data, little_endian(column.lengths)
    return column.data[column.ends[start] : column.ends[stop]], little_endian(column.lengths[start:stop])


def _headers_size(columns: Columns, start: int, stop: int) -> int:
    """Returns the size in bytes of the five header fields."""
    assert columns.header_names is not None
    assert columns.header_values is not None
    first, last = columns.header_ends[start], columns.header_ends[stop]
    if first == last:
        return 0
    names = _bytes_field(_data_size(columns.header_names, first, last)) + _bytes_field(4 * (last - first))
    values = _bytes_field(_data_size(columns.header_values, first, last)) + _bytes_field(4 * (last - first), tag=2)
    return _bytes_field(4 * (stop - start)) + names + values


def _fill_headers(frame: Frame, columns: Columns, start: int, stop: int) -> None:
    """Writes the header fields if any message of the frame has headers."""
    assert columns.header_counts is not None
    assert columns.header_names is not None
    assert columns.header_values is not None
    first, last = columns.header_ends[start], columns.header_ends[stop]
    if first != last:
        frame.header_counts = little_endian(columns.header_counts[start:stop])
        frame.header_names, frame.header_name_lengths = _slice(columns.header_names, first, last)
        frame.header_values, frame.header_value_lengths = _slice(columns.header_values, first, last)


def _unpacked(typecode: str, data: bytes) -> "array[int]":
    """Returns the numbers in little-endian bytes."""
    numbers: array[int] = array(typecode)
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _entries(data: bytes, lengths: bytes, count: int) -> Iterator[bytes | None]:
    """Yields the entries of a column, one by one."""
    at = 0
    for length in _unpacked("I", lengths) or array("I", [NULL]) * count:
        if length == NULL:
            yield None
        else:
            yield data[at : at + length]
            at += length


def _decoded_headers(frame: Frame) -> Iterator[list[tuple[str, bytes | None]] | None]:
    """Yields the headers of each message."""
    counts = _unpacked("I", frame.header_counts) or array("I", [0]) * frame.count
    names = _entries(frame.header_names, frame.header_name_lengths, 0)
    values = _entries(frame.header_values, frame.header_value_lengths, 0)
    pairs = ((name.decode(), value) for name, value in zip(names, values, strict=True) if name is not None)
    for count in counts:
        yield [next(pairs) for _ in range(count)] or None


def _varint(number: int) -> int:
    """Returns the size of a varint, in bytes."""
    return max(1, (number.bit_length() + 6) // 7)


def _int_field(number: int) -> int:
    """Returns the size of an integer field with a one-byte tag; 0 if the number is 0."""
    return 1 + _varint(number) if number else 0


def _bytes_field(length: int, *, always: bool = False, tag: int = 1) -> int:
    """Returns the size of a bytes field; 0 if it is empty, unless `always`. `tag` is 2 for field numbers from 16."""
    return tag + _varint(length) + length if length or always else 0
