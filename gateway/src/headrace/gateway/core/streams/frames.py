"""Frames in the gateway's memory, and the validation of frames."""

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from google.protobuf.unknown_fields import UnknownFieldSet

from headrace.contract.columns import time_outside
from headrace.contract.limits import MAX_CURSOR_BYTES, MAX_SEQUENCE
from headrace.gateway.core.base.errors import FrameTooLarge, MalformedMessage, ProtocolError, SequenceOutOfRange
from headrace.protocol.v1 import frame_pb2 as pb

if TYPE_CHECKING:
    from headrace.gateway.core.streams.credit import CreditAccount

NULL = 0xFFFFFFFF
OVERHEAD_BYTES = 512
"""The credit in bytes that a frame costs besides its size: even a frame of one byte takes some 330 bytes of memory."""

_U32 = np.dtype("<u4")
_FEW = 64
_UNPACK = [struct.Struct(f"<{count}I").unpack for count in range(_FEW + 1)]
_GROUP = 3
"""The wire type of a group."""


@dataclass(slots=True)
class HeldFrame:
    """A frame in memory: its bytes as received, and the fields that planning needs."""

    first: int
    last: int
    count: int
    size: int
    payload: bytes
    """The received bytes, of which the last `size` are the frame; extracting them would copy them."""
    cursor: bytes | None
    """Where the source can seek to resume after the frame: the frame's own cursor, or the latest one before it."""
    received_at: float
    account: "CreditAccount | None"
    """The account whose credit the frame uses; None if it uses none."""
    charged: int = 0
    """The credit that it uses, in bytes: its size as received, and the overhead."""

    @property
    def serialized(self) -> memoryview:
        """The frame's bytes."""
        return memoryview(self.payload)[len(self.payload) - self.size :]

    def sequences(self) -> npt.NDArray[np.int64]:
        """Returns the sequence of every message."""
        deltas = np.frombuffer(pb.Frame.FromString(bytes(self.serialized)).sequence_deltas, _U32)
        if not len(deltas):
            return np.arange(self.last - self.count + 1, self.last + 1, dtype=np.int64)
        distances = deltas.astype(np.int64)
        return np.concatenate(([0], np.cumsum(distances))) + (self.last - int(distances.sum()))

    def count_between(self, after: int, last: int) -> int:
        """Returns how many messages follow the sequence `after`, up to and including `last`."""
        after, last = max(after, self.first - 1), min(last, self.last)
        if after >= last:
            return 0
        if after < self.first and last == self.last:
            return self.count
        if self.last - self.first + 1 == self.count:
            return last - after
        low, high = np.searchsorted(self.sequences(), (after, last), side="right")
        return int(high - low)


def check_frame(frame: pb.Frame, size: int, max_bytes: int, max_messages: int, stream: str) -> int:
    """Checks that a frame is within the limits and that its columns are consistent; returns its last sequence.

    Raises:
        FrameTooLarge: the frame is too large.
        MalformedMessage: its columns are inconsistent; the error names stream, sequence and column.
        SequenceOutOfRange: a sequence is larger than 2^63 - 1.
    """
    try:
        return _check(frame, size, max_bytes, max_messages)
    except ProtocolError as error:
        sequence = frame.first_sequence
        raise error.within(f"stream {stream}, sequence {sequence}", stream=stream, sequence=sequence) from None


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


def _check(frame: pb.Frame, size: int, max_bytes: int, max_messages: int) -> int:
    if size > max_bytes:
        text = f"frame of {size} bytes: max_frame_bytes is {max_bytes}; send smaller frames"
        raise FrameTooLarge(text, limit="max_frame_bytes", maximum=max_bytes, actual=size)
    count = frame.count
    if count < 1:
        raise MalformedMessage("frame with count 0: a frame holds at least 1 message")
    if count > max_messages:
        text = f"frame of {count} messages: max_frame_messages is {max_messages}; send smaller frames"
        raise FrameTooLarge(text, limit="max_frame_messages", maximum=max_messages, actual=count)
    _check_bytes_column("values", len(frame.values), frame.value_lengths, count)
    _check_optional_column("keys", len(frame.keys), frame.key_lengths, count)
    _check_optional_column("message_ids", len(frame.message_ids), frame.message_id_lengths, count)
    if (at := _first_broken_text(frame.message_ids, frame.message_id_lengths)) is not None:
        raise MalformedMessage(f"frame column message_ids: the id of sequence {_sequence_at(frame, at)} is not UTF-8")
    _check_width("event_times", len(frame.event_times), 8, count)
    _check_headers(frame, count)
    if len(frame.cursor) > MAX_CURSOR_BYTES:
        raise MalformedMessage(f"frame with a cursor of {len(frame.cursor)} bytes: the largest is {MAX_CURSOR_BYTES}")
    _check_unknown(frame)
    last = _last_sequence(frame, count)
    if last > MAX_SEQUENCE:
        raise SequenceOutOfRange(f"frame that ends at sequence {last}: the largest is 2^63 - 1")
    return last


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
            f"frame column sequence_deltas has {len(deltas)} bytes: want {4 * (count - 1)} for {count} messages, or none"
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
        claimed -= NULL * int(np.count_nonzero(np.frombuffer(lengths, _U32) == NULL))
    if claimed != total:
        raise MalformedMessage(f"frame column {name} has {total} bytes: its lengths add up to {claimed}")


def _sum(numbers: bytes) -> int:
    """Sums a column of u32. For the few numbers of a small frame, creating an array would take longer than adding them."""
    if len(numbers) <= 4 * _FEW:
        return sum(_UNPACK[len(numbers) // 4](numbers))
    return int(np.add.reduce(np.frombuffer(numbers, _U32), dtype=np.uint64))


def _check_width(name: str, total: int, width: int, count: int) -> None:
    if total not in (0, width * count):
        raise MalformedMessage(f"frame column {name} has {total} bytes: want {width * count} for {count} messages, or none")


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
    if NULL in np.frombuffer(name_lengths, _U32):
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
    ends = np.cumsum(np.where(entries == NULL, 0, entries), dtype=np.int64)
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


def trim(frame: pb.Frame, count: int) -> pb.Frame:
    """Returns the frame without its first `count` messages, which the gateway has already received."""
    deltas = np.frombuffer(frame.sequence_deltas, _U32)
    skipped = int(deltas[:count].sum(dtype=np.uint64)) if len(deltas) else count
    headers = int(np.frombuffer(frame.header_counts[: 4 * count], _U32).sum(dtype=np.uint64))
    rest = pb.Frame(
        stream_id=frame.stream_id,
        first_sequence=frame.first_sequence + skipped,
        count=frame.count - count,
        sequence_deltas=frame.sequence_deltas[4 * count :],
        keys=frame.keys[_width(frame.key_lengths, count) :],
        key_lengths=frame.key_lengths[4 * count :],
        values=frame.values[_width(frame.value_lengths, count) :],
        value_lengths=frame.value_lengths[4 * count :],
        event_times=frame.event_times[8 * count :],
        message_ids=frame.message_ids[_width(frame.message_id_lengths, count) :],
        message_id_lengths=frame.message_id_lengths[4 * count :],
        header_counts=frame.header_counts[4 * count :],
        header_names=frame.header_names[_width(frame.header_name_lengths, headers) :],
        header_name_lengths=frame.header_name_lengths[4 * headers :],
        header_values=frame.header_values[_width(frame.header_value_lengths, headers) :],
        header_value_lengths=frame.header_value_lengths[4 * headers :],
    )
    if frame.HasField("cursor"):
        rest.cursor = frame.cursor
    return rest


def count_up_to(frame: pb.Frame, sequence: int) -> int:
    """Returns how many of a frame's messages have a sequence at or below the given one."""
    distance = sequence - frame.first_sequence
    if distance < 0:
        return 0
    deltas = np.frombuffer(frame.sequence_deltas, _U32)
    if not len(deltas):
        return min(frame.count, distance + 1)
    return 1 + int(np.searchsorted(np.cumsum(deltas, dtype=np.uint64), distance, side="right"))


def _width(lengths: bytes, entries: int) -> int:
    """Returns the size in bytes of the first `entries` entries of a column."""
    first = np.frombuffer(lengths[: 4 * entries], _U32)
    return int(first[first != NULL].sum(dtype=np.uint64))
