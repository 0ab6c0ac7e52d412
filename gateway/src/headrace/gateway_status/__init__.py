"""The status of a gateway as plain data, for `headrace status --json` and the HTTP API. Its names and types are stable."""

from headrace.gateway_status.convert import problem_documents, status_document
from headrace.gateway_status.document import (
    GatewayDocument,
    PipelineDocument,
    ProblemDocument,
    SessionDocument,
    SinkDocument,
    SinkSessionDocument,
    StatusDocument,
    StreamDocument,
)
from headrace.gateway_status.messages import DeadLettersDocument, PeekDocument, dead_letters_document, peek_document
from headrace.gateway_status.timeline import (
    EventDocument,
    EventLogDocument,
    MessageDocument,
    TimelineDocument,
    event_log_document,
    message_document,
    oldest_unacknowledged,
    timeline_document,
)
from headrace.protocol.v1.admin_documents import PauseDocument

__all__ = [
    "DeadLettersDocument",
    "EventDocument",
    "EventLogDocument",
    "GatewayDocument",
    "MessageDocument",
    "PauseDocument",
    "PeekDocument",
    "PipelineDocument",
    "ProblemDocument",
    "SessionDocument",
    "SinkDocument",
    "SinkSessionDocument",
    "StatusDocument",
    "StreamDocument",
    "TimelineDocument",
    "dead_letters_document",
    "event_log_document",
    "message_document",
    "oldest_unacknowledged",
    "peek_document",
    "problem_documents",
    "status_document",
    "timeline_document",
]
