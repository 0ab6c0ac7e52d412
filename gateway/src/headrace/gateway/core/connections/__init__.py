"""The gateway's knowledge of whoever is connected, and of its calls."""

from headrace.gateway.core.connections.client_certificates import ClientCertificates
from headrace.gateway.core.connections.connectors import ConnectorCounts, Connectors
from headrace.gateway.core.connections.heartbeat import SILENT_AFTER_S, Heartbeat, Silence
from headrace.gateway.core.connections.id_ranges import IdRanges
from headrace.gateway.core.connections.open_calls import OpenCall, OpenCalls
from headrace.gateway.core.connections.reconnections import Reconnections
from headrace.gateway.core.connections.refusals import Refusals, Role, connector_part
from headrace.gateway.core.connections.reported import MAX_ERRORS, MAX_TEXT_BYTES, STATUS_BYTES, Reported

__all__ = [
    "MAX_ERRORS",
    "MAX_TEXT_BYTES",
    "SILENT_AFTER_S",
    "STATUS_BYTES",
    "ClientCertificates",
    "ConnectorCounts",
    "Connectors",
    "Heartbeat",
    "IdRanges",
    "OpenCall",
    "OpenCalls",
    "Reconnections",
    "Refusals",
    "Reported",
    "Role",
    "Silence",
    "connector_part",
]
