"""Previews of messages as plain data. Its names and types are stable."""

import base64
from datetime import UTC, datetime, timedelta

# Pydantic, which makes the JSON schemas, needs this one before Python 3.12.
from typing_extensions import TypedDict

from headrace.protocol.v1 import admin_pb2 as pb

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class PreviewDocument(TypedDict):
    """The beginning of some bytes, in base64 and, if it is UTF-8, as text; and how many there are in all."""

    text: str | None
    base64: str
    size: int


class HeaderDocument(TypedDict):
    """A header. Its value is null if it has none."""

    name: str
    value: PreviewDocument | None


class ContentDocument(TypedDict):
    """How the parts of a message begin. Its key, its value and its time, in UTC, are null if it has none."""

    event_time: str | None
    key: PreviewDocument | None
    value: PreviewDocument | None
    headers: list[HeaderDocument]
    headers_in_all: int


class MessagePreviewDocument(ContentDocument):
    """The beginning of a message of a stream."""

    epoch: int
    sequence: int


class PeekDocument(TypedDict):
    """Messages of a stream, and how many have passed since the peek began without being shown."""

    messages: list[MessagePreviewDocument]
    not_shown: int


def peek_document(sample: pb.PeekResponse) -> PeekDocument:
    """Converts a sample to plain data."""
    messages: list[MessagePreviewDocument] = [
        {"epoch": message.epoch, "sequence": message.sequence, **content_document(message)} for message in sample.messages
    ]
    return {"messages": messages, "not_shown": sample.not_shown}


def content_document(message: pb.MessagePreview) -> ContentDocument:
    """Converts how the parts of a message begin to plain data."""
    return {
        "event_time": _time(message.event_time_us) if message.HasField("event_time_us") else None,
        "key": _preview(message.key) if message.HasField("key") else None,
        "value": _preview(message.value) if message.HasField("value") else None,
        "headers": [
            {"name": header.name, "value": _preview(header.value) if header.HasField("value") else None}
            for header in message.headers
        ],
        "headers_in_all": message.headers_in_all,
    }


def _preview(preview: pb.BytesPreview) -> PreviewDocument:
    return {"text": _text(preview), "base64": base64.b64encode(preview.first).decode(), "size": preview.size}


def _text(preview: pb.BytesPreview) -> str | None:
    """Returns the bytes as text; None if they are not UTF-8. The last character may be cut off."""
    try:
        return preview.first.decode()
    except UnicodeDecodeError as error:
        is_cut = error.reason == "unexpected end of data" and len(preview.first) < preview.size
        return preview.first[: error.start].decode() if is_cut else None


def _time(at_us: int) -> str | None:
    """Returns a time as ISO 8601; None if it is out of the range of the calendar."""
    try:
        return (_EPOCH + timedelta(microseconds=at_us)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return None
