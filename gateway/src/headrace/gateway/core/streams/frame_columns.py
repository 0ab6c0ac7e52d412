"""The rules of a frame's columns: they have an entry for each message, agree with each other, and are in order."""

import struct

import numpy as np
from google.protobuf.unknown_fields import UnknownFieldSet

from headrace.contract.columns import NULL_LENGTH, time_outside
from headrace.contract.counts import counted
from headrace.contract.limits import MAX_SEQUENCE
from headrace.gateway.core.base.errors import MalformedMessage, SequenceOutOfRange
from headrace.protocol.v1 import frame_pb2 as pb

_U32 = np.dtype("<u4")
_FEW = 64
_UNPACK = [struct.Struct(f"<{count}I").unpack for count in range(_FEW + 1)]
_OF_A_CURSOR = {"stream_id", "first_sequence", "cursor"}
"""The fields of a frame without messages."""
_GROUP = 3
"""The wire type of a group."""


def check_columns(frame: pb.Frame) -> int:
    """Checks that the columns of a frame are consistent; returns its last sequence.

    Raises:
        MalformedMessage: they are not; the error names the column.
        SequenceOutOfRange: a sequence is larger than 2^63 - 1.
    """
    count = frame.count
    _check_bytes_column("values", len(frame.values), frame.value_lengths, count)
    _check_optional_column("keys", len(frame.keys), frame.key_lengths, count)
    _check_optional_column("message_ids", len(frame.message_ids), frame.message_id_lengths, count)
    if (at := _first_broken_text(frame.message_ids, frame.message_id_lengths)) is not None:
        raise MalformedMessage(f"frame column message_ids: the id of sequence {_sequence_at(frame, at)} is not UTF-8")
    _check_width("event_times", len(frame.event_times), 8, count)
    _check_headers(frame, count)
    _check_unknown(frame)
    last = _last_sequence(frame, count)
    if last > MAX_SEQUENCE:
        raise SequenceOutOfRange(f"frame that ends at sequence {last}: the largest is 2^63 - 1")
    return last


def check_only_cursor(frame: pb.Frame) -> None:
    """Checks a frame without messages: it has a cursor, and nothing in its columns.

    Raises:
        MalformedMessage: it lacks a cursor, or has a column.
        SequenceOutOfRange: its sequence is larger than 2^63 - 1.
    """
    if not frame.HasField("cursor"):
        raise MalformedMessage("frame with count 0 and no cursor: a frame has at least 1 message, or a cursor alone")
    if columns := [field.name for field, _ in frame.ListFields() if field.name not in _OF_A_CURSOR]:
        raise MalformedMessage(f"frame with count 0 and {columns[0]}: a frame without messages has a cursor alone")
    _check_unknown(frame)
    if frame.first_sequence > MAX_SEQUENCE:
        raise SequenceOutOfRange(f"frame without messages at sequence {frame.first_sequence}: the largest is 2^63 - 1")


def check_times(frame: pb.Frame, stream: str) -> None:
    """Checks the event times that a source sends: a watermark behind the year 9999 would drop all other messages.

    Raises:
        MalformedMessage: a time is outside the years 1 to 9999.
    """
    if (at := time_outside(frame.event_times)) is not None:
        sequence = _sequence_at(frame, at)
        raise MalformedMessage(
            f"stream {stream}, sequence {sequence}: frame column event_times has a time that is not within the years 1 to 9999; "
            "times are in microseconds since 1970-01-01 UTC",
            stream=stream,
            sequence=sequence,
        )


def check_order(first: int, last_before: int, stream: str) -> None:
    """Checks that sequences increase within a session.

    Raises:
        SequenceOutOfRange: `first` is not larger than `last_before`.
    """
    if first <= last_before:
        raise SequenceOutOfRange(
            f"stream {stream}, sequence {first}: it must be larger than {last_before}, which this session has already sent",
            stream=stream,
            sequence=first,
        )


def _check_unknown(frame: pb.Frame) -> None:
    """Rejects groups: nested as deeply as this parser allows, they are too deep for the parser of the frame's reader."""
    unknown = UnknownFieldSet(frame)
    for field in (unknown[at] for at in range(len(unknown))):
        if field.wire_type == _GROUP:
            raise MalformedMessage(f"frame with a group as field {field.field_number}: no version of the protocol has groups")


def _last_sequence(frame: pb.Frame, count: int) -> int:
    deltas = frame.sequence_deltas
    if not deltas:
        return frame.first_sequence + count - 1
    if len(deltas) != 4 * (count - 1):
        raise MalformedMessage(
            f"frame column sequence_deltas has {len(deltas)} bytes: want {4 * (count - 1)} for {counted(count, 'message')}, "
            "or none"
        )
    distances = np.frombuffer(deltas, _U32)
    if not distances.all():
        raise MalformedMessage("frame column sequence_deltas has an entry of 0: sequences must increase")
    return frame.first_sequence + int(distances.sum(dtype=np.uint64))


def _check_optional_column(name: str, total: int, lengths: bytes, count: int) -> None:
    if lengths or total:
        _check_bytes_column(name, total, lengths, count)


def _check_bytes_column(name: str, total: int, lengths: bytes, count: int) -> None:
    if len(lengths) != 4 * count:
        raise MalformedMessage(
            f"frame column {name}: its lengths have {len(lengths)} bytes, want {4 * count} for {count} entries"
        )
    claimed = _sum(lengths)
    if claimed != total:
        claimed -= NULL_LENGTH * int(np.count_nonzero(np.frombuffer(lengths, _U32) == NULL_LENGTH))
    if claimed != total:
        raise MalformedMessage(f"frame column {name} has {total} bytes: its lengths add up to {claimed}")


def _sum(numbers: bytes) -> int:
    """Sums a column of u32. For the few numbers of a small frame, creating an array would take longer than adding them."""
    if len(numbers) <= 4 * _FEW:
        return sum(_UNPACK[len(numbers) // 4](numbers))
    return int(np.add.reduce(np.frombuffer(numbers, _U32), dtype=np.uint64))


def _check_width(name: str, total: int, width: int, count: int) -> None:
    if total not in (0, width * count):
        raise MalformedMessage(
            f"frame column {name} has {total} bytes: want {width * count} for {counted(count, 'message')}, or none"
        )


def _check_headers(frame: pb.Frame, count: int) -> None:
    counts = frame.header_counts
    if not counts:
        if frame.header_name_lengths or frame.header_names or frame.header_value_lengths or frame.header_values:
            raise MalformedMessage("frame with header columns but no header_counts")
        return
    _check_width("header_counts", len(counts), 4, count)
    headers = _sum(counts)
    name_lengths = frame.header_name_lengths
    _check_bytes_column("header_names", len(frame.header_names), name_lengths, headers)
    if NULL_LENGTH in np.frombuffer(name_lengths, _U32):
        raise MalformedMessage("frame column header_names has a null: a header has a name")
    if (at := _first_broken_text(frame.header_names, name_lengths)) is not None:
        message = int(np.searchsorted(np.cumsum(np.frombuffer(counts, _U32), dtype=np.uint64), at, side="right"))
        raise MalformedMessage(
            f"frame column header_names: a header's name of sequence {_sequence_at(frame, message)} is not UTF-8"
        )
    _check_bytes_column("header_values", len(frame.header_values), frame.header_value_lengths, headers)


def _first_broken_text(joined: bytes, lengths: bytes) -> int | None:
    """Returns the first entry of a column that is not UTF-8; None if all are. Checks the column as a whole.

    If the column is UTF-8, and no entry begins within a character, then each entry is UTF-8.
    """
    if joined.isascii():
        return None
    entries = np.frombuffer(lengths, _U32)
    ends = np.cumsum(np.where(entries == NULL_LENGTH, 0, entries), dtype=np.int64)
    try:
        joined.decode()
        broken_at = len(joined)
    except UnicodeDecodeError as error:
        broken_at = error.start
    inside = ends[ends < broken_at]
    torn = inside[(np.frombuffer(joined, np.uint8)[inside] & 0xC0) == 0x80]
    if len(torn):
        broken_at = int(torn[0]) - 1
    return int(np.searchsorted(ends, broken_at, side="right")) if broken_at < len(joined) else None


def _sequence_at(frame: pb.Frame, index: int) -> int:
    """Returns the sequence of the message at an index of a frame."""
    deltas = np.frombuffer(frame.sequence_deltas, _U32)
    return frame.first_sequence + (int(deltas[:index].sum(dtype=np.uint64)) if len(deltas) else index)
