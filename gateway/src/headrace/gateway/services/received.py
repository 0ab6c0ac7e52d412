"""Requests that contain frames: parsed once, keeping each frame's bytes so that they can be forwarded unchanged."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError

from headrace.contract.counts import counted
from headrace.contract.limits import MAX_FRAMES
from headrace.gateway.core.base.envelopes import size_of_only_field
from headrace.gateway.core.base.errors import MalformedMessage
from headrace.protocol.v1 import engine_pb2, frame_pb2, source_pb2

_FRAME_TAG = source_pb2.IngestRequest.FRAME_FIELD_NUMBER << 3 | 2
_ONE_OF_FRAMES_TAG = source_pb2.Frames.FRAMES_FIELD_NUMBER << 3 | 2
_WHOLE_PART_TAG = engine_pb2.DeliverAtOnceRequest.PART_FIELD_NUMBER << 3 | 2
_MAX_FIELDS = 16
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_NO_FRAME = memoryview(b"")


class FrameOfSeveral(NamedTuple):
    """A frame that shares its request with others."""

    frame: frame_pb2.Frame
    serialized: memoryview
    """The serialized Frame, as received: a copy, so that it does not keep the bytes of the others."""


class Received(NamedTuple):
    """A source connector's request."""

    request: source_pb2.IngestRequest
    frame: memoryview
    """The request's serialized Frame; empty if it has none."""
    frame_bytes: int
    """The size of the Frame as received, in bytes. It exceeds `len(frame)` if several fields were merged into one frame."""
    several: Sequence[FrameOfSeveral] = ()
    """The frames of a request that contains several."""


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
        several = _several(request, data) if request.HasField("frames") else ()
        return Received(request, _NO_FRAME, 0, several)
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


def delivered_at_once(data: bytes) -> Sequence[Delivered]:
    """Parses a message of a delivery of several parts; a whole part is as many messages as it would otherwise have.

    Raises:
        DecodeError: the bytes are not a DeliverAtOnceRequest.
    """
    if not data or data[0] != _WHOLE_PART_TAG:
        return (delivered(data),)
    part = engine_pb2.DeliverAtOnceRequest.FromString(data).part
    whole, end = engine_pb2.DeliverRequest, engine_pb2.DeliveryEnd(messages=part.frame.count)
    return (
        Delivered(whole(start=part.start), _NO_FRAME),
        Delivered(whole(frame=part.frame), memoryview(part.frame.SerializeToString())),
        Delivered(whole(end=end), _NO_FRAME),
    )


def _several(request: source_pb2.IngestRequest, data: bytes) -> Sequence[FrameOfSeveral]:
    """Returns the frames of a request that contains several, in order.

    Raises:
        MalformedMessage: the request contains something else, or has too many frames.
    """
    size = size_of_only_field(data, source_pb2.IngestRequest.FRAMES_FIELD_NUMBER)
    if size is None:
        raise MalformedMessage("an IngestRequest with frames and something else: send the frames in a message of their own")
    frames = request.frames.frames
    if not 1 <= len(frames) <= MAX_FRAMES:
        raise MalformedMessage(f"an IngestRequest with {counted(len(frames), 'frame')}: send 1 to {MAX_FRAMES} in each message")
    copies = [data[begin:end] for tag, begin, end in _fields(data, len(data) - size) if tag == _ONE_OF_FRAMES_TAG]
    return [FrameOfSeveral(frame, memoryview(copy)) for frame, copy in zip(frames, copies, strict=True)]


def frame_bytes(data: bytes) -> int:
    """Returns the size in bytes of the Frame in a serialized IngestRequest, without its tag and length prefix.

    Raises:
        MalformedMessage: the request has more fields than any request needs.
    """
    return sum(end - begin for tag, begin, end in _fields(data, 0, _MAX_FIELDS) if tag == _FRAME_TAG)


def _fields(data: bytes, at: int, most: int = MAX_FRAMES + _MAX_FIELDS) -> Iterator[tuple[int, int, int]]:
    """Yields the tag of each field of well-formed bytes, from an offset on, and where its content begins and ends.

    Raises:
        MalformedMessage: there are more than `most` fields, or a group.
    """
    for _ in range(most):
        if at == len(data):
            return
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _BYTES:
            length, begin = _varint(data, at)
            at = begin + length
        elif kind == _VARINT:
            begin = at
            _, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            begin, at = at, at + (8 if kind == _FIXED64 else 4)
        else:
            break
        yield tag, begin, at
    raise MalformedMessage(f"an IngestRequest with more than {most} fields, or a group: send one message in each")


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
