"""Requests as they came: how many bytes a frame took on the wire, and what to do with bytes that are no message."""

from typing import Any, NamedTuple

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from headrace.gateway.core._errors import MalformedMessage
from headrace.protocol.v1 import source_pb2 as pb

SOURCE_SERVICE = pb.DESCRIPTOR.services_by_name["SourceService"].full_name

_FRAME_TAG = pb.IngestRequest.FRAME_FIELD_NUMBER << 3 | 2
_MOST_FIELDS = 16
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Received(NamedTuple):
    """A request, and how many bytes the Frame in it took: one that is not in its shortest form takes more than its content."""

    request: pb.IngestRequest
    frame_bytes: int


def received(data: bytes) -> Received:
    """Reads a request.

    Raises:
        MalformedMessage: the bytes are no IngestRequest, or one of needlessly many fields.
    """
    try:
        request = pb.IngestRequest.FromString(data)
    except DecodeError as error:
        raise MalformedMessage(f"not an IngestRequest: {error}") from None
    return Received(request, frame_bytes(data) if request.HasField("frame") else 0)


def frame_bytes(data: bytes) -> int:
    """How many bytes of a serialized IngestRequest are its Frame message, without the tag and the length before it.

    Raises:
        MalformedMessage: it has more fields than any request.
    """
    at = total = 0
    for _ in range(_MOST_FIELDS):
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
    raise MalformedMessage(f"an IngestRequest of more than {_MOST_FIELDS} fields: it holds one message")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at a place of well-formed bytes, and the place after it."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return number, at
        shift += 7


def add_source_service(service: Any, server: grpc.aio.Server) -> None:
    """Adds a SourceService whose Ingest takes `Received` requests."""
    ingest = grpc.stream_stream_rpc_method_handler(service.Ingest, received, pb.IngestResponse.SerializeToString)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SOURCE_SERVICE, {"Ingest": ingest}),))
