"""The call to a gateway: its channel and messages, and the columnar encoding of frames."""

from headrace.sdk.wire._call import Call, Ending, calling, unless_stopped, welcomed
from headrace.sdk.wire._certificates import InvalidCertificates
from headrace.sdk.wire._columns import Column, Columns
from headrace.sdk.wire._ended import BY_REASON, session_ended
from headrace.sdk.wire._frame import decode_frame, fill_frame, fit, frame_size
from headrace.sdk.wire._internals import keep_status
from headrace.sdk.wire._message import CLOSE, GONE, Backlog, Batch, Close, Headers, Message, Packed, Position, Steps
from headrace.sdk.wire._messages import FIELDS, Messages, fields_of
from headrace.sdk.wire._pack import lone_cursor, pack, pack_batch, pack_messages
from headrace.sdk.wire._reports import MAX_ERRORS, MAX_TEXT_BYTES, SDK, ConnectorState, Reporting, Reports, reports_of
from headrace.sdk.wire._tasks import Tasks
from headrace.sdk.wire._transport import Connection, Stream, Transport, over_grpc

__all__ = [
    "BY_REASON",
    "CLOSE",
    "FIELDS",
    "GONE",
    "MAX_ERRORS",
    "MAX_TEXT_BYTES",
    "SDK",
    "Backlog",
    "Batch",
    "Call",
    "Close",
    "Column",
    "Columns",
    "Connection",
    "ConnectorState",
    "Ending",
    "Headers",
    "InvalidCertificates",
    "Message",
    "Messages",
    "Packed",
    "Position",
    "Reporting",
    "Reports",
    "Steps",
    "Stream",
    "Tasks",
    "Transport",
    "calling",
    "decode_frame",
    "fields_of",
    "fill_frame",
    "fit",
    "frame_size",
    "keep_status",
    "lone_cursor",
    "over_grpc",
    "pack",
    "pack_batch",
    "pack_messages",
    "reports_of",
    "session_ended",
    "unless_stopped",
    "welcomed",
]
