"""Messages as plain data: previews of a stream, and dead letters. The names and types are stable."""

from base64 import b64encode
from collections.abc import Mapping

# Pydantic, which makes the JSON schemas, needs this one before Python 3.12.
from typing_extensions import TypedDict

from headrace.gateway_status.fields import Fields, since_1970
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.admin_documents import (
    DeadLetterFields,
    DeadLettersFields,
    HeaderFields,
    MessagePreviewFields,
    PeekFields,
    PreviewFields,
    SinkDeadLettersFields,
)

REPLAY = "headrace dead-letters replay-files FOLDER --source NAME"
"""The command that replays dead letters; the folder is where the connector of the sink that takes them writes."""


class PreviewDocument(PreviewFields):
    """The beginning of some bytes, in base64 and, if it is UTF-8, as text; and how many there are in all."""

    text: str | None
    base64: str


class HeaderDocument(HeaderFields):
    """A header. Its value is null if it has none."""

    value: PreviewDocument | None


class ContentDocument(TypedDict):
    """How the parts of a message begin. Its key, its value and its time, in UTC, are null if it has none."""

    event_time: str | None
    key: PreviewDocument | None
    value: PreviewDocument | None
    headers: list[HeaderDocument]
    headers_in_all: int


class MessagePreviewDocument(MessagePreviewFields, ContentDocument):
    """The beginning of a message of a stream."""


class PeekDocument(PeekFields):
    """Messages of a stream, and how many have passed since the peek began without being shown."""

    messages: list[MessagePreviewDocument]


class DeadLetterDocument(DeadLetterFields, ContentDocument):
    """A dead letter: how it begins, and what its query states about it; null where the query states nothing."""

    committed_at: str


class SinkDeadLettersDocument(SinkDeadLettersFields):
    """The dead letters that a sink has taken since the gateway started: how many, and the last ones, newest first."""

    letters: list[DeadLetterDocument]


class DeadLettersDocument(DeadLettersFields):
    """Dead letters by the sink that takes them, whether the gateway keeps any, and the command that replays them."""

    sinks: list[SinkDeadLettersDocument]
    replay: str


def peek_document(sample: pb.PeekResponse) -> PeekDocument:
    """Converts a sample to plain data."""
    return _peek(sample)


def dead_letters_document(answer: pb.ListDeadLettersResponse) -> DeadLettersDocument:
    """Converts dead letters to plain data."""
    return _dead_letters(answer, {"replay": REPLAY})


def _previewed(preview: pb.BytesPreview) -> Mapping[str, object]:
    return {"text": _text(preview), "base64": b64encode(preview.first).decode()}


def _text(preview: pb.BytesPreview) -> str | None:
    """Returns the bytes as text; None if they are not UTF-8. The last character may be cut off."""
    try:
        return preview.first.decode()
    except UnicodeDecodeError as error:
        is_cut = error.reason == "unexpected end of data" and len(preview.first) < preview.size
        return preview.first[: error.start].decode() if is_cut else None


def _event_time(message: pb.MessagePreview) -> Mapping[str, object]:
    """Returns the event time; None if there is none, or it is out of the range of the calendar."""
    try:
        time = since_1970(microseconds=message.event_time_us) if message.HasField("event_time_us") else None
    except OverflowError:
        time = None
    return {"event_time": time}


def _content_of(letter: pb.DeadLetter) -> Mapping[str, object]:
    return {"committed_at": since_1970(milliseconds=letter.committed_ms), **_content(letter.message)}


_preview = Fields(PreviewDocument, pb.BytesPreview.DESCRIPTOR, "text", "base64", values_of=_previewed)
_content = Fields(ContentDocument, pb.MessagePreview.DESCRIPTOR, "event_time", values_of=_event_time, inner=(_preview,))
_message = Fields(MessagePreviewDocument, pb.MessagePreview.DESCRIPTOR, "event_time", values_of=_event_time, inner=(_preview,))
_peek = Fields(PeekDocument, pb.PeekResponse.DESCRIPTOR, inner=(_message,))
_letter = Fields(
    DeadLetterDocument, pb.DeadLetter.DESCRIPTOR, "committed_at", *ContentDocument.__annotations__, values_of=_content_of
)
_dead_letters = Fields(DeadLettersDocument, pb.ListDeadLettersResponse.DESCRIPTOR, "replay", inner=(_letter,))
