"""Reads and writes the messages around a frame without parsing the frame, whose bytes are forwarded unchanged.

A message field is a tag, a length and the field's bytes, so a frame can be moved from one message to another without being
parsed and serialized again.
"""

from functools import lru_cache

from headrace.contract.columns import varint
from headrace.protocol.v1 import engine_pb2, sink_pb2

_VARINT, _BYTES = 0, 2
_MAX_LENGTH = 5
"""The maximum size in bytes of a message's length, in its shortest form."""


def size_of_only_field(data: bytes, number: int) -> int | None:
    """Returns the size in bytes of a field, if the message consists of this field only. The field's bytes are the last ones.

    Args:
        data: Any bytes, not necessarily a valid message.
        number: The field's number; at most 15.

    Returns:
        The size; None if there is anything else, or if the length is not in its shortest form. The message must then be parsed.
    """
    if not data or data[0] != number << 3 | _BYTES:
        return None
    length = 0
    for place, byte in enumerate(data[1 : 1 + _MAX_LENGTH]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            begin = 2 + place
            return length if begin + length == len(data) and (byte or not place) else None
    return None


@lru_cache(maxsize=1024)
def range_frame_head(index: int, size: int) -> bytes:
    """Returns the bytes that precede a frame in a RangeFrame of a FetchResponse. A response may contain several.

    Args:
        index: The index of the frame's range in the request.
        size: The size of the frame, in bytes.
    """
    return _head(
        engine_pb2.FetchResponse.FRAMES_FIELD_NUMBER,
        engine_pb2.RangeFrame.RANGE_FIELD_NUMBER,
        index,
        engine_pb2.RangeFrame.FRAME_FIELD_NUMBER,
        size,
    )


def part_frame(part: int, frame: memoryview) -> bytes:
    """Serializes a SinkServiceAttachResponse with a frame; `part` is the id of its part in the session."""
    head = _head(
        sink_pb2.SinkServiceAttachResponse.FRAME_FIELD_NUMBER,
        sink_pb2.PartFrame.ID_FIELD_NUMBER,
        part,
        sink_pb2.PartFrame.FRAME_FIELD_NUMBER,
        len(frame),
    )
    return b"".join((head, frame))


def _head(outer: int, number: int, value: int, inner: int, size: int) -> bytes:
    """Returns the beginning of a message in field `outer`: a number in one field, then `size` bytes in field `inner`."""
    named = varint(number << 3 | _VARINT) + varint(value) if value else b""
    head = named + varint(inner << 3 | _BYTES) + varint(size)
    return varint(outer << 3 | _BYTES) + varint(len(head) + size) + head
