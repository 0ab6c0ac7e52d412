"""The core of the gateway: its state and rules, without I/O."""

from headrace.gateway.core.connectors import ConnectorCounts
from headrace.gateway.core.errors import ProtocolError
from headrace.gateway.core.gateway import Gateway
from headrace.gateway.core.health import problems
from headrace.gateway.core.housekeeping import run_housekeeping
from headrace.gateway.core.problem import Kind, Problem
from headrace.gateway.core.snapshot import VERSION, snapshot

__all__ = [
    "VERSION",
    "ConnectorCounts",
    "Gateway",
    "Kind",
    "Problem",
    "ProtocolError",
    "problems",
    "run_housekeeping",
    "snapshot",
]
