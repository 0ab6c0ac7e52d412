"""Previews of messages, for people: how they begin, without what a name calls a secret.

Only the messages that are shown are taken out of the columns of their frame.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.contract.columns import NULL_LENGTH
from headrace.protocol.v1 import frame_pb2
from headrace.protocol.v1.admin_pb2 import BytesPreview, HeaderPreview, MessagePreview

KEY_BYTES = 256
"""The maximum number of bytes of a key that are shown."""
HEADER_BYTES = 256
"""The maximum number of bytes of a header's name, and of its value, that are shown."""
MAX_HEADERS = 20
"""The maximum number of headers that are shown."""
HIDDEN = b"(hidden)"
"""What is shown in place of a secret."""

_U32, _I64 = np.dtype("<u4"), np.dtype("<i8")
_NO_TIME = -(2**63)
_SECRET = re.compile(rb"authori[sz]ation|cookie|credential|passw|passphrase|private.?key|api.?key|access.?key|secret|token", re.I)
_MEMBER = re.compile(rb'"([^"\\]*+)"\s*+:\s*+')
"""The name of a JSON member."""
_VALUE = re.compile(rb'"(?:[^"\\]|\\.)*+"?+|[{\[].*+|[^\s,}\]]++', re.S)
"""Its value; of an object or a list, all that follows: where it ends may be cut off."""


@dataclass(frozen=True, slots=True)
class _Bytes:
    """A column of bytes, up to the last message that is shown."""

    joined: bytes
    lengths: npt.NDArray[np.uint32]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, joined: bytes, lengths: bytes, count: int) -> "_Bytes":
        found = np.frombuffer(lengths, _U32, min(count, len(lengths) // 4))
        return cls(joined, found, np.cumsum(np.where(found == NULL_LENGTH, 0, found), dtype=np.int64))

    def entry(self, index: int) -> bytes | None:
        """Returns an entry; None if it is null."""
        if index >= len(self.lengths) or self.lengths[index] == NULL_LENGTH:
            return None
        end = int(self.ends[index])
        return self.joined[end - int(self.lengths[index]) : end]

    def first(self, index: int, most: int) -> BytesPreview | None:
        """Returns how an entry begins; None if it is null."""
        entry = self.entry(index)
        return None if entry is None else BytesPreview(first=without_secrets(entry[:most]), size=len(entry))


def previews(
    frame: frame_pb2.Frame, epoch: int, max_bytes: int, first: int, count: int, *, last_headers: bool = False
) -> Iterator[MessagePreview]:
    """Yields previews of consecutive messages of a frame whose columns were checked.

    Args:
        frame: The frame.
        epoch: The epoch of its sequences.
        max_bytes: How many bytes of a value are shown.
        first: The index of the first message.
        count: How many messages, at most.
        last_headers: Whether the last headers of a message are shown if there are too many, and not the first.
    """
    end = min(first + count, frame.count)
    keys = _Bytes.of(frame.keys, frame.key_lengths, end)
    values = _Bytes.of(frame.values, frame.value_lengths, end)
    times = np.frombuffer(frame.event_times, _I64)
    deltas = np.frombuffer(frame.sequence_deltas, _U32)
    header_counts = np.frombuffer(frame.header_counts, _U32)
    headers = int(header_counts[:end].sum(dtype=np.int64))
    names = _Bytes.of(frame.header_names, frame.header_name_lengths, headers)
    header_values = _Bytes.of(frame.header_values, frame.header_value_lengths, headers)
    for index in range(first, end):
        in_all = int(header_counts[index]) if len(header_counts) else 0
        before = int(header_counts[:index].sum(dtype=np.int64))
        begin = before + (max(0, in_all - MAX_HEADERS) if last_headers else 0)
        yield MessagePreview(
            epoch=epoch,
            sequence=frame.first_sequence + (int(deltas[:index].sum(dtype=np.uint64)) if len(deltas) else index),
            event_time_us=int(times[index]) if len(times) and times[index] != _NO_TIME else None,
            key=keys.first(index, KEY_BYTES),
            value=values.first(index, max_bytes),
            headers=_headers(names, header_values, range(begin, begin + min(in_all, MAX_HEADERS))),
            headers_in_all=in_all,
        )


def _headers(names: _Bytes, values: _Bytes, indices: Sequence[int]) -> Iterator[HeaderPreview]:
    for at in indices:
        name, value = names.entry(at), values.first(at, HEADER_BYTES)
        assert name is not None, "a header has a name"
        if value is not None and is_secret(name):
            value = BytesPreview(first=HIDDEN)
        yield HeaderPreview(name=name[:HEADER_BYTES].decode(errors="replace"), value=value)


def is_secret(name: bytes) -> bool:
    """Returns whether a name looks like the name of a secret."""
    return _SECRET.search(name) is not None


def without_secrets(text: bytes) -> bytes:
    """Replaces the values of JSON members with names of secrets. An object or a list that follows is left out."""
    if not is_secret(text):
        return text
    shown, at = b"", 0
    for member in _MEMBER.finditer(text):
        if member.start() >= at and is_secret(member[1]) and (value := _VALUE.match(text, member.end())):
            shown += text[at : member.end()] + b'"' + HIDDEN + b'"'
            at = value.end()
    return shown + text[at:]
