"""Dead letters as plain data. Its names and types are stable."""

from datetime import UTC, datetime

# Pydantic, which makes the JSON schemas, needs this one before Python 3.12.
from typing_extensions import TypedDict

from headrace.gateway_status.peek import ContentDocument, content_document
from headrace.protocol.v1 import admin_pb2 as pb

REPLAY = "headrace dead-letters replay-files FOLDER --source NAME"
"""The command that replays dead letters; the folder is where the connector of the sink that takes them writes."""


class DeadLetterDocument(ContentDocument):
    """A dead letter: how it begins, and what its query says of it, null if it does not."""

    pipeline: str
    batch: int
    committed_at: str
    reason: str
    sink: str | None
    step: str | None
    stream: str | None
    sequence: int | None


class SinkDeadLettersDocument(TypedDict):
    """The dead letters that a sink has taken since the gateway started: how many, and the last ones, newest first."""

    sink: str
    count: int
    letters: list[DeadLetterDocument]


class DeadLettersDocument(TypedDict):
    """Dead letters by the sink that takes them, whether the gateway keeps any, and the command that replays them."""

    sinks: list[SinkDeadLettersDocument]
    kept: bool
    replay: str


def dead_letters_document(answer: pb.ListDeadLettersResponse) -> DeadLettersDocument:
    """Converts dead letters to plain data."""
    return {
        "sinks": [
            {"sink": sink.sink, "count": sink.count, "letters": [_letter(letter) for letter in sink.letters]}
            for sink in answer.sinks
        ],
        "kept": answer.kept,
        "replay": REPLAY,
    }


def _letter(letter: pb.DeadLetter) -> DeadLetterDocument:
    at = datetime.fromtimestamp(letter.committed_ms / 1000, UTC)
    return {
        "pipeline": letter.pipeline,
        "batch": letter.batch,
        "committed_at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "reason": letter.reason,
        "sink": letter.sink or None,
        "step": letter.step or None,
        "stream": letter.stream or None,
        "sequence": letter.sequence if letter.HasField("sequence") else None,
        **content_document(letter.message),
    }
