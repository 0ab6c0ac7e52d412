"""Rows for a sink, kept in columns until messages are requested."""

import sys
from array import array
from collections.abc import Collection
from dataclasses import replace
from functools import cached_property
from itertools import compress, pairwise

from headrace.contract.columns import NULL_LENGTH as NULL
from headrace.protocol.v1.frame_pb2 import Frame
from headrace.sdk._errors import InvalidMessage
from headrace.sdk.sinks.types import Part
from headrace.sdk.wire import Message, Packed, decode_frame, fill_frame, pack


class Rows:
    """Consecutive messages of one part. Columns are decoded on first use."""

    def __init__(self, frame: Frame, part: Part | None = None) -> None:
        """Wraps a frame whose sequences are the places of the messages in their part."""
        self._frame = frame
        self._part = part

    @classmethod
    def of(cls, *messages: Message, first: int = 0, part: Part | None = None) -> "Rows":
        """Creates rows from messages, for tests. Their places count from `first`, regardless of their sequences.

        Raises:
            InvalidMessage: There is no message, or one of them cannot be sent.
        """
        columns = pack([replace(message, sequence=None) for message in messages], first, None)
        if columns is None:
            raise InvalidMessage("rows must contain at least one message")
        frame = Frame()
        fill_frame(frame, columns, 0, 0, columns.count)
        return cls(frame, part)

    def __len__(self) -> int:
        """Returns the number of messages."""
        return self._frame.count

    @property
    def frame(self) -> Frame:
        """The frame as received."""
        return self._frame

    @property
    def first(self) -> int:
        """The place of the first message in the part, counted from 0."""
        return self._frame.first_sequence

    @property
    def part(self) -> Part | None:
        """The part of the rows in `Sink.write`; None elsewhere."""
        return self._part

    def messages(self) -> list[Message]:
        """Returns the decoded messages; the sequence of each is its place in the part, counted from 0."""
        return decode_frame(self._frame)

    @cached_property
    def values(self) -> Packed:
        """The values, packed; a length of `NULL` means a row without a value."""
        return Packed(self._frame.values, _numbers("I", self._frame.value_lengths))

    @cached_property
    def keys(self) -> Packed | None:
        """The keys, packed; None if no message has one."""
        lengths = self._frame.key_lengths
        return Packed(self._frame.keys, _numbers("I", lengths)) if lengths else None

    @cached_property
    def message_ids(self) -> Packed | None:
        """The message ids, packed in UTF-8; None if no message has one."""
        lengths = self._frame.message_id_lengths
        return Packed(self._frame.message_ids, _numbers("I", lengths)) if lengths else None

    @cached_property
    def event_times(self) -> "array[int] | None":
        """The event times in microseconds since 1970-01-01 UTC, -2**63 if unknown; None if no message has one."""
        return _numbers("q", self._frame.event_times) if self._frame.event_times else None

    def without(self, places: Collection[int]) -> "Rows | None":
        """Returns the rows except the rows at these places in the part; None if none is left."""
        sequences = _sequences(self._frame)
        kept = [sequence not in places for sequence in sequences]
        left = list(compress(sequences, kept))
        if len(left) == len(kept):
            return self
        return Rows(_picked(self._frame, kept, left), self._part) if left else None


def _picked(frame: Frame, mask: list[bool], left: list[int]) -> Frame:
    """Returns a frame with only the messages that are kept; `left` are their sequences."""
    picked = Frame(stream_id=frame.stream_id, first_sequence=left[0], count=len(left))
    deltas = array("I", [after - before for before, after in pairwise(left)])
    if deltas and max(deltas) > 1:
        picked.sequence_deltas = _bytes(deltas)
    picked.values, picked.value_lengths = _picked_column(frame.values, frame.value_lengths, mask)
    picked.keys, picked.key_lengths = _picked_column(frame.keys, frame.key_lengths, mask)
    picked.message_ids, picked.message_id_lengths = _picked_column(frame.message_ids, frame.message_id_lengths, mask)
    if frame.event_times:
        picked.event_times = _bytes(array("q", compress(_numbers("q", frame.event_times), mask)))
    if frame.header_counts:
        counts = _numbers("I", frame.header_counts)
        of_kept = [keep for count, keep in zip(counts, mask, strict=True) for _ in range(count)]
        picked.header_counts = _bytes(array("I", compress(counts, mask)))
        picked.header_names, picked.header_name_lengths = _picked_column(frame.header_names, frame.header_name_lengths, of_kept)
        picked.header_values, picked.header_value_lengths = _picked_column(
            frame.header_values, frame.header_value_lengths, of_kept
        )
    return picked


def _picked_column(data: bytes, lengths: bytes, mask: list[bool]) -> tuple[bytes, bytes]:
    """Returns the data and lengths of the entries that are kept."""
    if not lengths:
        return b"", b""
    numbers = _numbers("I", lengths)
    pieces, at = [], 0
    for length, keep in zip(numbers, mask, strict=True):
        end = at if length == NULL else at + length
        if keep:
            pieces.append(data[at:end])
        at = end
    return b"".join(pieces), _bytes(array("I", compress(numbers, mask)))


def _sequences(frame: Frame) -> list[int]:
    """Returns the sequence of every message."""
    if not frame.sequence_deltas:
        return list(range(frame.first_sequence, frame.first_sequence + frame.count))
    sequences = [frame.first_sequence]
    for delta in _numbers("I", frame.sequence_deltas):
        sequences.append(sequences[-1] + delta)
    return sequences


def _numbers(typecode: str, data: bytes) -> "array[int]":
    """Returns the numbers in little-endian bytes."""
    numbers: array[int] = array(typecode)
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _bytes(numbers: "array[int]") -> bytes:
    """Returns the numbers as little-endian bytes."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()
