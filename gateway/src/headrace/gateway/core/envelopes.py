"""The messages around a frame, read and written without touching the frame: its bytes are handed on as they came.

A field of a message is a tag, a length and the field's bytes, so that a frame can be taken out of one message and put into
another without being parsed and serialized again.
"""

from functools import lru_cache

from headrace.protocol.v1 import engine_pb2, sink_pb2

_VARINT, _BYTES = 0, 2
_LONGEST_LENGTH = 5
"""So many bytes the length of a message has at most, in its shortest form."""


def size_of_only_field(data: bytes, number: int) -> int | None:
    """How many bytes a message's field has, where the message is this field and nothing else: so many of its last bytes.

    Args:
        data: Any bytes, not only those of a message.
        number: The field's number; at most 15.

    Returns:
        None where there is something else, or the length is not in its shortest form: only a parser can tell what it means then.
    """
    if not data or data[0] != number << 3 | _BYTES:
        return None
    length = 0
    for place, byte in enumerate(data[1 : 1 + _LONGEST_LENGTH]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            begin = 2 + place
            return length if begin + length == len(data) and (byte or not place) else None
    return None


@lru_cache(maxsize=1024)
def range_frame_head(index: int, size: int) -> bytes:
    """What comes before the bytes of a frame so as to make a RangeFrame of a FetchResponse: several of them make one response.

    Args:
        index: Which of the request's ranges the frame is of.
        size: How many bytes the frame has.
    """
    return _head(
        engine_pb2.FetchResponse.FRAMES_FIELD_NUMBER,
        engine_pb2.RangeFrame.RANGE_FIELD_NUMBER,
        index,
        engine_pb2.RangeFrame.FRAME_FIELD_NUMBER,
        size,
    )


def part_frame(part: int, frame: memoryview) -> bytes:
    """A SinkServiceAttachResponse with a frame of the part that has the id `part` in its session."""
    head = _head(
        sink_pb2.SinkServiceAttachResponse.FRAME_FIELD_NUMBER,
        sink_pb2.PartFrame.ID_FIELD_NUMBER,
        part,
        sink_pb2.PartFrame.FRAME_FIELD_NUMBER,
        len(frame),
    )
    return b"".join((head, frame))


def _head(outer: int, number: int, value: int, inner: int, size: int) -> bytes:
    """The beginning of a message in field `outer`, with a number in one field and then `size` bytes in field `inner`."""
    named = _varint(number << 3 | _VARINT) + _varint(value) if value else b""
    head = named + _varint(inner << 3 | _BYTES) + _varint(size)
    return _varint(outer << 3 | _BYTES) + _varint(len(head) + size) + head


def _varint(number: int) -> bytes:
    """A number as protobuf writes it: seven bits a byte, the lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
