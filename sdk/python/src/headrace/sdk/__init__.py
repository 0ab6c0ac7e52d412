"""Write a Headrace source in a few lines: subclass `Source` or `AsyncSource`, and `run` it."""

from headrace.sdk._columns import NULL
from headrace.sdk._errors import (
    GatewayRefused,
    GatewayUnavailable,
    HeadraceError,
    InvalidMessage,
    InvalidSource,
    MessageTooLarge,
    PositionLost,
    SessionEnded,
    SessionTakenOver,
    SourceFailed,
    StreamNotPermitted,
)
from headrace.sdk._frame import decode_frame
from headrace.sdk._gather import FrameTarget
from headrace.sdk._message import Backlog, Batch, Headers, Message, Packed, Position, Steps
from headrace.sdk._run import run
from headrace.sdk._serve import serve
from headrace.sdk._settings import DEFAULT_GATEWAY, Settings, Tls, stream_name
from headrace.sdk._source import AsyncSource, Source, SourceKind

__all__ = [
    "DEFAULT_GATEWAY",
    "NULL",
    "AsyncSource",
    "Backlog",
    "Batch",
    "FrameTarget",
    "GatewayRefused",
    "GatewayUnavailable",
    "Headers",
    "HeadraceError",
    "InvalidMessage",
    "InvalidSource",
    "Message",
    "MessageTooLarge",
    "Packed",
    "Position",
    "PositionLost",
    "SessionEnded",
    "SessionTakenOver",
    "Settings",
    "Source",
    "SourceFailed",
    "SourceKind",
    "Steps",
    "StreamNotPermitted",
    "Tls",
    "decode_frame",
    "run",
    "serve",
    "stream_name",
]
