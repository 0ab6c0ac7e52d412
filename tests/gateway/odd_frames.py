"""Frames as no SDK writes them, made field by field."""

from collections.abc import Sequence

from hypothesis import strategies as st

from headrace.protocol.v1.frame_pb2 import Frame

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)


def varint(number: int, longer_by: int = 0) -> bytes:
    """A number, in needlessly many bytes if so wanted."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    for _ in range(longer_by):
        encoded[-1] |= 0x80
        encoded.append(0)
    return bytes(encoded)


def tag(number: int, kind: int) -> bytes:
    return varint(number << 3 | kind)


def bytes_field(number: int, data: bytes, longer_by: int = 0) -> bytes:
    """A field with a length."""
    return tag(number, BYTES) + varint(len(data), longer_by) + data


def nested_groups(number: int, depth: int) -> bytes:
    """So many groups, each in the one before."""
    return tag(number, GROUP) * depth + tag(number, END_GROUP) * depth


def _fields(numbers: st.SearchStrategy[int], *, groups: bool) -> st.SearchStrategy[bytes]:
    kinds = [
        st.builds(lambda n, value, more: tag(n, VARINT) + varint(value, more), numbers, st.integers(0, 2**63), st.integers(0, 1)),
        st.builds(bytes_field, numbers, st.binary(max_size=40), st.integers(0, 2)),
        st.builds(lambda n, data: tag(n, FIXED64) + data, numbers, st.binary(min_size=8, max_size=8)),
        st.builds(lambda n, data: tag(n, FIXED32) + data, numbers, st.binary(min_size=4, max_size=4)),
    ]
    if groups:
        kinds.append(st.builds(nested_groups, numbers, st.integers(1, 5)))
    return st.one_of(kinds)


_NUMBERS = st.one_of(
    st.sampled_from([field.number for field in Frame.DESCRIPTOR.fields]), st.integers(18, 2**29 - 1), st.integers(1, 40)
)


def odd_frames(good: Sequence[Frame], *, groups: bool = False) -> st.SearchStrategy[bytes]:
    """Fields of good frames among others: unknown, repeated, of wrong types, in needlessly many bytes, in any order."""
    pieces = st.one_of(_fields(_NUMBERS, groups=groups), st.sampled_from([frame.SerializeToString() for frame in good]))
    return st.lists(pieces, max_size=8).map(b"".join)
