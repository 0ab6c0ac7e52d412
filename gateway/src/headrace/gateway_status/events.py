"""What happened at a gateway, as plain data. Its names and types are stable."""

from datetime import UTC, datetime

# Pydantic, which makes the JSON schemas, needs this one before Python 3.12.
from typing_extensions import TypedDict

from headrace.protocol.v1 import admin_pb2 as pb


class EventDocument(TypedDict):
    """Something that happened: its number since the gateway started, when in UTC, its kind, to what, and what."""

    number: int
    at: str
    kind: str
    part: str
    text: str


class EventLogDocument(TypedDict):
    """The last events, oldest first, and since when the gateway counts them."""

    started: str
    events: list[EventDocument]


def event_log_document(answer: pb.ListEventsResponse) -> EventLogDocument:
    """Converts events to plain data."""
    return {
        "started": _time(answer.started_ms),
        "events": [
            {"number": one.number, "at": _time(one.at_ms), "kind": one.kind, "part": one.part, "text": one.text}
            for one in answer.events
        ],
    }


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
