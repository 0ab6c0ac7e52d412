"""The state of a gateway, which the rooms above it change and read."""

from headrace.gateway.core.state.deployments import Deployment, Order, Replay, Supervised
from headrace.gateway.core.state.event_log import EventKind, EventLog
from headrace.gateway.core.state.gateway import Gateway
from headrace.gateway.core.state.process_states import (
    LOG_LINES,
    MAX_AGE_MS,
    MAX_LOG_LINES,
    MAX_NAMES,
    MAX_PROCESSES,
    MAX_PROCESSES_IN_ALL,
    Process,
    Processes,
    checked_processes,
    kept_log,
    line_of,
)
from headrace.gateway.core.state.tracing import Sending

__all__ = [
    "LOG_LINES",
    "MAX_AGE_MS",
    "MAX_LOG_LINES",
    "MAX_NAMES",
    "MAX_PROCESSES",
    "MAX_PROCESSES_IN_ALL",
    "Deployment",
    "EventKind",
    "EventLog",
    "Gateway",
    "Order",
    "Process",
    "Processes",
    "Replay",
    "Sending",
    "Supervised",
    "checked_processes",
    "kept_log",
    "line_of",
]
