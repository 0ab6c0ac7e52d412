"""Write a Headrace source or sink in a few lines: subclass `Source`, `Sink` or one of their kin, and `run` it."""

from headrace.sdk._columns import NULL
from headrace.sdk._errors import (
    GatewayRefused,
    GatewayUnavailable,
    HeadraceError,
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
from headrace.sdk._frame import decode_frame
from headrace.sdk._gather import FrameTarget
from headrace.sdk._message import CLOSE, GONE, Backlog, Batch, Close, Headers, Message, Packed, Position, Steps
from headrace.sdk._run import run
from headrace.sdk._serve import serve
from headrace.sdk._settings import DEFAULT_GATEWAY, Settings, Tls, stream_name
from headrace.sdk._sink import IdempotentSink, Sink, TwoPhaseSink
from headrace.sdk._sink_async import AsyncIdempotentSink, AsyncSink, AsyncTwoPhaseSink
from headrace.sdk._sink_rows import Rows
from headrace.sdk._sink_types import WRITTEN, Outcome, Outcomes, Part, Recovered, Refused, Transaction, Written
from headrace.sdk._source import AsyncSource, Source, SourceKind

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
