"""Frames in the gateway's memory, and the parts that are left of them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from headrace.contract.columns import NULL_LENGTH
from headrace.protocol.v1 import frame_pb2 as pb

if TYPE_CHECKING:
    from headrace.gateway.core.streams.credit import CreditAccount

OVERHEAD_BYTES = 512
"""The credit in bytes that a frame costs besides its size: even a frame of one byte takes some 330 bytes of memory."""

_U32 = np.dtype("<u4")


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
    return int(first[first != NULL_LENGTH].sum(dtype=np.uint64))
