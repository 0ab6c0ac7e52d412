"""What operators request, of the gateway and of the supervisors of deployments."""

from headrace.gateway.core.control.connected import connected_message
from headrace.gateway.core.control.control import (
    Caller,
    checked,
    drain,
    drain_progress,
    forget_pipeline,
    forget_stream,
    pause,
    reload,
    resume,
    unknown,
)
from headrace.gateway.core.control.orders import read_log, replay_dead_letters, restart_connector
from headrace.gateway.core.control.supervising import (
    MAX_CONNECTORS,
    leave,
    look_for_sessions,
    register,
    replace_connectors,
    replace_processes,
    take_outcome,
)

__all__ = [
    "MAX_CONNECTORS",
    "Caller",
    "checked",
    "connected_message",
    "drain",
    "drain_progress",
    "forget_pipeline",
    "forget_stream",
    "leave",
    "look_for_sessions",
    "pause",
    "read_log",
    "register",
    "reload",
    "replace_connectors",
    "replace_processes",
    "replay_dead_letters",
    "restart_connector",
    "resume",
    "take_outcome",
    "unknown",
]
