"""Requests that contain a frame: parsed once, keeping the frame's bytes so that they can be forwarded unchanged."""

from typing import NamedTuple

from google.protobuf.message import DecodeError

from headrace.gateway.core.base.envelopes import size_of_only_field
from headrace.gateway.core.base.errors import MalformedMessage
from headrace.protocol.v1 import engine_pb2, source_pb2

_FRAME_TAG = source_pb2.IngestRequest.FRAME_FIELD_NUMBER << 3 | 2
_MAX_FIELDS = 16
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_NO_FRAME = memoryview(b"")


class Received(NamedTuple):
    """A source connector's request."""

    request: source_pb2.IngestRequest
    frame: memoryview
    """The request's serialized Frame; empty if it has none."""
    frame_bytes: int
    """The size of the Frame as received, in bytes. It exceeds `len(frame)` if several fields were merged into one frame."""


class Delivered(NamedTuple):
    """One message of a delivery."""

    request: engine_pb2.DeliverRequest
    frame: memoryview
    """The message's serialized Frame; empty if it has none."""


def received(data: bytes) -> Received:
    """Parses a source connector's request.

    Raises:
        MalformedMessage: the bytes are not an IngestRequest, or have more fields than any request needs.
    """
    try:
        request = source_pb2.IngestRequest.FromString(data)
    except DecodeError as error:
        raise MalformedMessage(f"not an IngestRequest: {error}") from None
    if not request.HasField("frame"):
        return Received(request, _NO_FRAME, 0)
    size = size_of_only_field(data, source_pb2.IngestRequest.FRAME_FIELD_NUMBER)
    if size is not None:
        return Received(request, memoryview(data)[len(data) - size :], size)
    return Received(request, memoryview(request.frame.SerializeToString()), frame_bytes(data))


def delivered(data: bytes) -> Delivered:
    """Parses a message of a delivery, of one part or of several: their fields are the same.

    Raises:
        DecodeError: the bytes are not a DeliverRequest.
    """
    request = engine_pb2.DeliverRequest.FromString(data)
    if not request.HasField("frame"):
        return Delivered(request, _NO_FRAME)
    size = size_of_only_field(data, engine_pb2.DeliverRequest.FRAME_FIELD_NUMBER)
    if size is not None:
        return Delivered(request, memoryview(data)[len(data) - size :])
    return Delivered(request, memoryview(request.frame.SerializeToString()))


def frame_bytes(data: bytes) -> int:
    """Returns the size in bytes of the Frame in a serialized IngestRequest, without its tag and length prefix.

    Raises:
        MalformedMessage: the request has more fields than any request needs.
    """
    at = total = 0
    for _ in range(_MAX_FIELDS):
        if at == len(data):
            return total
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _BYTES:
            length, at = _varint(data, at)
            at += length
            total += length if tag == _FRAME_TAG else 0
        elif kind == _VARINT:
            _, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            break
    raise MalformedMessage(f"an IngestRequest with more than {_MAX_FIELDS} fields: send one message in each")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns the number at an offset of well-formed bytes, and the offset after it."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return number, at
        shift += 7
