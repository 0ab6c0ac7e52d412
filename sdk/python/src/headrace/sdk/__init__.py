"""The SDK for sources and sinks: subclass `Source`, `Sink` or one of their variants, and `run` it."""

from headrace.contract.columns import NULL_LENGTH as NULL
from headrace.contract.errors import HeadraceError
from headrace.contract.limits import DEFAULT_GATEWAY
from headrace.sdk._errors import (
    GatewayRefused,
    GatewayUnavailable,
    InvalidMessage,
    InvalidOutcomes,
    InvalidSink,
    InvalidSource,
    MessageTooLarge,
    PositionLost,
    SessionEnded,
    SessionTakenOver,
    SinkFailed,
    SourceFailed,
    StreamNotPermitted,
)
from headrace.sdk._run import run
from headrace.sdk._serve import serve
from headrace.sdk._settings import FrameTarget, Settings, Tls, stream_name
from headrace.sdk.sinks.async_sinks import AsyncIdempotentSink, AsyncSink, AsyncTwoPhaseSink
from headrace.sdk.sinks.rows import Rows
from headrace.sdk.sinks.sink import IdempotentSink, Sink, TwoPhaseSink
from headrace.sdk.sinks.types import WRITTEN, Outcome, Outcomes, Part, Recovered, Refused, Transaction, Written
from headrace.sdk.sources.source import AsyncSource, Source, SourceKind
from headrace.sdk.wire import (
    CLOSE,
    GONE,
    Backlog,
    Batch,
    Close,
    ConnectorState,
    Headers,
    Message,
    Packed,
    Position,
    Steps,
    decode_frame,
)

__all__ = [
    "CLOSE",
    "DEFAULT_GATEWAY",
    "GONE",
    "NULL",
    "WRITTEN",
    "AsyncIdempotentSink",
    "AsyncSink",
    "AsyncSource",
    "AsyncTwoPhaseSink",
    "Backlog",
    "Batch",
    "Close",
    "ConnectorState",
    "FrameTarget",
    "GatewayRefused",
    "GatewayUnavailable",
    "Headers",
    "HeadraceError",
    "IdempotentSink",
    "InvalidMessage",
    "InvalidOutcomes",
    "InvalidSink",
    "InvalidSource",
    "Message",
    "MessageTooLarge",
    "Outcome",
    "Outcomes",
    "Packed",
    "Part",
    "Position",
    "PositionLost",
    "Recovered",
    "Refused",
    "Rows",
    "SessionEnded",
    "SessionTakenOver",
    "Settings",
    "Sink",
    "SinkFailed",
    "Source",
    "SourceFailed",
    "SourceKind",
    "Steps",
    "StreamNotPermitted",
    "Tls",
    "Transaction",
    "TwoPhaseSink",
    "Written",
    "decode_frame",
    "run",
    "serve",
    "stream_name",
]
