"""Reads streams of a Headrace gateway in Spark Structured Streaming, and writes to its sinks.

from headrace.engine import build_session

spark = build_session("orders")
orders = spark.readStream.format("headrace").option("gateway", "127.0.0.1:7433").option("stream", "orders/*").load()
"""

import importlib
from typing import TYPE_CHECKING, Any

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
    Replaced,
    SchemaError,
    SinkAway,
    SinkFailed,
    SinkLost,
    SinkRefused,
    StreamAway,
    TakenOver,
)

if TYPE_CHECKING:
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
    "Replaced",
    "SchemaError",
    "SinkAway",
    "SinkFailed",
    "SinkLost",
    "SinkRefused",
    "StateSize",
    "StoredStates",
    "StreamAway",
    "TakenOver",
    "build_session",
    "register",
    "rescale",
    "ship",
    "start",
]

_MODULES = {
    "_rescale": ("rescale",),
    "_schema": ("SCHEMA",),
    "_session": ("build_session", "register"),
    "_ship": ("ship",),
    "_start": ("DEFAULT_WORKER_MEMORY", "start"),
    "_states": ("StateSize", "StoredStates"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Imports a name's module when it is first asked for: Spark starts a process for each step, which needs few of them."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
