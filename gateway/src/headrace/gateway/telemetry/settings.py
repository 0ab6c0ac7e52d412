"""How often a gateway exports, from OpenTelemetry's standard variables."""

import os
from collections.abc import Mapping
from contextlib import suppress

DEFAULT_INTERVAL_MS = 60_000


def export_interval_s(environ: Mapping[str, str] = os.environ) -> float:
    """Returns the interval between exports of metrics, in seconds; at least one."""
    with suppress(ValueError):
        return max(1_000, int(environ.get("OTEL_METRIC_EXPORT_INTERVAL", ""))) / 1000
    return DEFAULT_INTERVAL_MS / 1000
