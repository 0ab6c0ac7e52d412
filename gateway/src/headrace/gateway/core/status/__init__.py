"""What the gateway shows: its status, its health, its history, and where a message stands."""

from headrace.gateway.core.status.awaiting import await_sinks, sinks_away
from headrace.gateway.core.status.condition import note_trouble
from headrace.gateway.core.status.health import problems
from headrace.gateway.core.status.history import FIELDS, HISTORY_S, INTERVAL_S, History
from headrace.gateway.core.status.listing import list_batches, list_dead_letters, list_events
from headrace.gateway.core.status.locating import locate, missing
from headrace.gateway.core.status.peeking import begin_peek, peek
from headrace.gateway.core.status.problem import FaultWatch, Kind, Problem
from headrace.gateway.core.status.snapshot import VERSION, snapshot
from headrace.gateway.core.status.stream_status import pause_status

__all__ = [
    "FIELDS",
    "HISTORY_S",
    "INTERVAL_S",
    "VERSION",
    "FaultWatch",
    "History",
    "Kind",
    "Problem",
    "await_sinks",
    "begin_peek",
    "list_batches",
    "list_dead_letters",
    "list_events",
    "locate",
    "missing",
    "note_trouble",
    "pause_status",
    "peek",
    "problems",
    "sinks_away",
    "snapshot",
]
