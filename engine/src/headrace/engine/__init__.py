"""Reads streams of a Headrace gateway in Spark Structured Streaming, and writes to its sinks.

from headrace.engine import build_session

spark = build_session("orders")
orders = spark.readStream.format("headrace").option("gateway", "127.0.0.1:7433").option("stream", "orders/*").load()
"""

import importlib
from typing import TYPE_CHECKING, Any

from headrace.contract.errors import HeadraceError
from headrace.engine._errors import (
    CheckpointError,
    DecodeError,
    FrameError,
    GatewayAway,
    GatewayError,
    HistoryError,
    LakeError,
    MessagesLost,
    NotAllowed,
    NotAttached,
    OlderCheckpoint,
    OptionError,
    PositionRefused,
    Replaced,
    SchemaError,
    SinkAway,
    SinkFailed,
    SinkLost,
    SinkRefused,
    SpillError,
    StreamAway,
    TakenOver,
)

if TYPE_CHECKING:
    from headrace.engine.applications.offline.plain import plain
    from headrace.engine.applications.offline.reposition import Kept, StoredPositions
    from headrace.engine.applications.offline.rescale import rescale
    from headrace.engine.applications.offline.state_table import read_state
    from headrace.engine.applications.offline.stored_states import StateSize, StoredStates
    from headrace.engine.applications.shipping.ship import ship
    from headrace.engine.applications.starting.start import DEFAULT_WORKER_MEMORY, start
    from headrace.engine.checkpoint.backups import (
        Backup,
        Verification,
        back_up_checkpoint,
        restore_checkpoint,
        verify_checkpoint,
    )
    from headrace.engine.checkpoint.moves import (
        After,
        AtBatch,
        AtBeginning,
        AtEnd,
        AtPositions,
        AtTime,
        By,
        Change,
        Direction,
        Target,
    )
    from headrace.engine.checkpoint.position import Position
    from headrace.engine.history.request import History, parse_time
    from headrace.engine.lakes.compaction import Compaction, compact_lake
    from headrace.engine.source.schema import SCHEMA
    from headrace.engine.spark.quiet import discard_output
    from headrace.engine.spark.session import build_session, register

__all__ = [
    "DEFAULT_WORKER_MEMORY",
    "SCHEMA",
    "After",
    "AtBatch",
    "AtBeginning",
    "AtEnd",
    "AtPositions",
    "AtTime",
    "Backup",
    "By",
    "Change",
    "CheckpointError",
    "Compaction",
    "DecodeError",
    "Direction",
    "FrameError",
    "GatewayAway",
    "GatewayError",
    "HeadraceError",
    "History",
    "HistoryError",
    "Kept",
    "LakeError",
    "MessagesLost",
    "NotAllowed",
    "NotAttached",
    "OlderCheckpoint",
    "OptionError",
    "Position",
    "PositionRefused",
    "Replaced",
    "SchemaError",
    "SinkAway",
    "SinkFailed",
    "SinkLost",
    "SinkRefused",
    "SpillError",
    "StateSize",
    "StoredPositions",
    "StoredStates",
    "StreamAway",
    "TakenOver",
    "Target",
    "Verification",
    "back_up_checkpoint",
    "build_session",
    "compact_lake",
    "discard_output",
    "parse_time",
    "plain",
    "read_state",
    "register",
    "rescale",
    "restore_checkpoint",
    "ship",
    "start",
    "verify_checkpoint",
]

_MODULES = {
    "applications.offline.plain": ("plain",),
    "applications.offline.reposition": ("Kept", "StoredPositions"),
    "applications.offline.rescale": ("rescale",),
    "applications.shipping.ship": ("ship",),
    "applications.starting.start": ("DEFAULT_WORKER_MEMORY", "start"),
    "applications.offline.state_table": ("read_state",),
    "applications.offline.stored_states": ("StateSize", "StoredStates"),
    "checkpoint.backups": ("Backup", "Verification", "back_up_checkpoint", "restore_checkpoint", "verify_checkpoint"),
    "checkpoint.moves": (
        "After",
        "AtBatch",
        "AtBeginning",
        "AtEnd",
        "AtPositions",
        "AtTime",
        "By",
        "Change",
        "Direction",
        "Target",
    ),
    "checkpoint.position": ("Position",),
    "history.request": ("History", "parse_time"),
    "lakes.compaction": ("Compaction", "compact_lake"),
    "source.schema": ("SCHEMA",),
    "spark.quiet": ("discard_output",),
    "spark.session": ("build_session", "register"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Imports a name's module on first access: Spark starts a process for each step, and each needs few of the modules."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
