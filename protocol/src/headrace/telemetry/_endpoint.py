"""Where a process exports to, from its configuration and OpenTelemetry's standard variables."""

import os
from collections.abc import Mapping
from typing import Literal


def export_endpoint(
    signal: Literal["metrics", "traces"], configured: str = "", environ: Mapping[str, str] = os.environ
) -> str | None:
    """Returns where a signal is exported to: the configured endpoint, or that of the standard variables; None if nowhere."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get(f"OTEL_{signal.upper()}_EXPORTER", "otlp") != "otlp":
        return None
    names = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    return configured or next((environ[name] for name in names if environ.get(name)), None)
