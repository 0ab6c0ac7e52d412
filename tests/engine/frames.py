"""Frames made from plain messages, and rows as Spark should show them."""

import itertools
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.protocol.v1 import frame_pb2 as pb

NULL = 0xFFFFFFFF
NULL_TIME = -(2**63)


@dataclass(frozen=True)
class Message:
    sequence: int
    value: bytes | None = b""
    key: bytes | None = None
    time: int | None = None
    id: str | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def row(self, stream: str) -> tuple[object, ...]:
        headers = [{"name": name, "value": value} for name, value in self.headers]
        return (self.key, self.value, self.time, stream, self.sequence, self.id, headers)


def frame(messages: Sequence[Message], cursor: bytes | None = None) -> pb.Frame:
    sequences = [m.sequence for m in messages]
    deltas = [b - a for a, b in itertools.pairwise(sequences)]
    headers = [header for m in messages for header in m.headers]
    ids = [None if m.id is None else m.id.encode() for m in messages]
    values, keys, header_values = [m.value for m in messages], [m.key for m in messages], [value for _, value in headers]
    names = [name.encode() for name, _ in headers]
    times = [NULL_TIME if m.time is None else m.time for m in messages]
    return pb.Frame(
        first_sequence=sequences[0],
        count=len(messages),
        sequence_deltas=_u32(deltas) if any(d != 1 for d in deltas) else b"",
        keys=_joined(keys),
        key_lengths=_lengths(keys) if any(k is not None for k in keys) else b"",
        values=_joined(values),
        value_lengths=_lengths(values),
        event_times=struct.pack(f"<{len(times)}q", *times) if any(t != NULL_TIME for t in times) else b"",
        message_ids=_joined(ids),
        message_id_lengths=_lengths(ids) if any(i is not None for i in ids) else b"",
        header_counts=_u32(len(m.headers) for m in messages) if headers else b"",
        header_names=_joined(names),
        header_name_lengths=_lengths(names),
        header_values=_joined(header_values),
        header_value_lengths=_lengths(header_values),
        cursor=cursor,
    )


def _joined(values: Iterable[bytes | None]) -> bytes:
    return b"".join(v or b"" for v in values)


def _lengths(values: Iterable[bytes | None]) -> bytes:
    return _u32(NULL if v is None else len(v) for v in values)


def _u32(numbers: Iterable[int]) -> bytes:
    return b"".join(struct.pack("<I", n) for n in numbers)
