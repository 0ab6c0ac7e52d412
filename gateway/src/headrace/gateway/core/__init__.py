"""The core of the gateway: its state and rules, without I/O."""

from headrace.gateway.core.base.errors import ProtocolError
from headrace.gateway.core.connections import ConnectorCounts
from headrace.gateway.core.housekeeping import run_housekeeping
from headrace.gateway.core.state import Gateway
from headrace.gateway.core.status import VERSION, Kind, Problem, problems, snapshot

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
