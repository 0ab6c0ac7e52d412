"""Spans of messages on their way, by OpenTelemetry: shared by the gateway and the engine.

Only `spans` needs the packages of the extra `telemetry`; what decides whether there are spans does not.
"""

from headrace.telemetry._contexts import MAX_LINKS, Contexts, sampled
from headrace.telemetry._exporting import ExportRepeats, export_endpoint

__all__ = ["MAX_LINKS", "Contexts", "ExportRepeats", "export_endpoint", "sampled"]
