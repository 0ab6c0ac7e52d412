"""Frames from decoded columns and back, with protobuf's own library and `struct`: none of the code that the vectors test."""

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from headrace.protocol.v1.frame_pb2 import Frame

NULL = 0xFFFFFFFF
NO_TIME = -(2**63)


def pack(columns: dict[str, Any]) -> Frame:
    """The smallest frame of columns as the vectors write them; without a cursor, headers and so on where those are left out."""
    sequences, values = [int(each) for each in columns["sequences"]], columns["values"]
    frame = Frame(stream_id=columns.get("stream_id", 0), first_sequence=sequences[0], count=len(values))
    deltas = [after - before for before, after in pairwise(sequences)]
    if any(delta != 1 for delta in deltas):
        frame.sequence_deltas = numbers(deltas)
    frame.values, frame.value_lengths = joined(values)
    if any(key is not None for key in columns.get("keys", ())):
        frame.keys, frame.key_lengths = joined(columns["keys"])
    if any(time is not None for time in columns.get("event_times", ())):
        times = [NO_TIME if time is None else int(time) for time in columns["event_times"]]
        frame.event_times = struct.pack(f"<{len(times)}q", *times)
    if any(each is not None for each in columns.get("message_ids", ())):
        ids = [None if each is None else each.encode().hex() for each in columns["message_ids"]]
        frame.message_ids, frame.message_id_lengths = joined(ids)
    if any(columns.get("headers", ())):
        _add_headers(frame, columns["headers"])
    if columns.get("cursor") is not None:
        frame.cursor = bytes.fromhex(columns["cursor"])
    return frame


def unpack(frame: Frame) -> dict[str, Any]:
    """The columns of a frame, as the vectors write them."""
    count = frame.count
    deltas = struct.unpack(f"<{count - 1}I", frame.sequence_deltas) if frame.sequence_deltas else [1] * (count - 1)
    sequences = [frame.first_sequence]
    for delta in deltas:
        sequences.append(sequences[-1] + delta)
    times = struct.unpack(f"<{count}q", frame.event_times) if frame.event_times else [NO_TIME] * count
    ids = split(frame.message_ids, frame.message_id_lengths, count)
    return {
        "stream_id": frame.stream_id,
        "sequences": [str(sequence) for sequence in sequences],
        "keys": split(frame.keys, frame.key_lengths, count),
        "values": split(frame.values, frame.value_lengths, count),
        "event_times": [None if time == NO_TIME else str(time) for time in times],
        "message_ids": [None if each is None else bytes.fromhex(each).decode() for each in ids],
        "headers": _headers(frame),
        "cursor": frame.cursor.hex() if frame.HasField("cursor") else None,
    }


def numbers(entries: Sequence[int]) -> bytes:
    """A column of u32."""
    return struct.pack(f"<{len(entries)}I", *entries)


def joined(entries: Sequence[str | None]) -> tuple[bytes, bytes]:
    """A column of bytes, given in hex, and its lengths."""
    plain = [None if entry is None else bytes.fromhex(entry) for entry in entries]
    lengths = numbers([NULL if entry is None else len(entry) for entry in plain])
    return b"".join(entry for entry in plain if entry is not None), lengths


def split(data: bytes, lengths: bytes, count: int) -> list[str | None]:
    """The entries of a column, in hex; all null where the column is left out."""
    if not lengths:
        return [None] * count
    entries: list[str | None] = []
    at = 0
    for length in struct.unpack(f"<{count}I", lengths):
        entries.append(None if length == NULL else data[at : at + length].hex())
        at += 0 if length == NULL else length
    assert at == len(data)
    return entries


def _add_headers(frame: Frame, headers: list[list[tuple[str, str | None]]]) -> None:
    each = [header for of_message in headers for header in of_message]
    frame.header_counts = numbers([len(of_message) for of_message in headers])
    frame.header_names, frame.header_name_lengths = joined([name.encode().hex() for name, _ in each])
    frame.header_values, frame.header_value_lengths = joined([value for _, value in each])


def _headers(frame: Frame) -> list[list[list[str | None]]]:
    if not frame.header_counts:
        return [[] for _ in range(frame.count)]
    counts = struct.unpack(f"<{frame.count}I", frame.header_counts)
    names = split(frame.header_names, frame.header_name_lengths, sum(counts)) if sum(counts) else []
    values = split(frame.header_values, frame.header_value_lengths, sum(counts)) if sum(counts) else []
    pairs = iter([[bytes.fromhex(name or "").decode(), value] for name, value in zip(names, values, strict=True)])
    return [[next(pairs) for _ in range(count)] for count in counts]
