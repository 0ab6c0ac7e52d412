"""Reads streams of a Headrace gateway in Spark Structured Streaming, and writes to its sinks.

from headrace.engine import build_session

spark = build_session("orders")
orders = spark.readStream.format("headrace").option("gateway", "127.0.0.1:7433").option("stream", "orders/*").load()
"""

from headrace.engine._errors import (
    CheckpointError,
    FrameError,
    GatewayAway,
    GatewayError,
    HeadraceError,
    MessagesLost,
    NotAllowed,
    NotAttached,
    OlderCheckpoint,
    OptionError,
    SchemaError,
    SinkFailed,
    SinkRefused,
    TakenOver,
)
from headrace.engine._rescale import rescale
from headrace.engine._schema import SCHEMA
from headrace.engine._session import build_session, register
from headrace.engine._ship import ship
from headrace.engine._start import DEFAULT_WORKER_MEMORY, start
from headrace.engine._states import StateSize, StoredStates

__all__ = [
    "DEFAULT_WORKER_MEMORY",
    "SCHEMA",
    "CheckpointError",
    "FrameError",
    "GatewayAway",
    "GatewayError",
    "HeadraceError",
    "MessagesLost",
    "NotAllowed",
    "NotAttached",
    "OlderCheckpoint",
    "OptionError",
    "SchemaError",
    "SinkFailed",
    "SinkRefused",
    "StateSize",
    "StoredStates",
    "TakenOver",
    "build_session",
    "register",
    "rescale",
    "ship",
    "start",
]
