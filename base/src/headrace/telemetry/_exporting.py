"""Where a process exports to, and what its log says while the collector is away."""

import logging
import os
from collections.abc import Mapping
from typing import Literal

from headrace.logs.repeats import Repeats


class ExportRepeats(logging.Filter):
    """Passes an error of a kind once in a while: a collector that is away is no reason to fill the log.

    Args:
        every_s: How long a kind is silent after it was logged, in seconds.
    """

    def __init__(self, every_s: float) -> None:
        super().__init__()
        self._repeats = Repeats(every_s)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is logged. Attempts that are repeated are not worth a line; there are few kinds of errors."""
        if record.levelno < logging.ERROR:
            return False
        kind = (record.msg, record.args[:1] if isinstance(record.args, tuple) else None)
        return self._repeats.admit(kind) is not None


def export_endpoint(
    signal: Literal["metrics", "traces"], configured: str = "", environ: Mapping[str, str] = os.environ
) -> str | None:
    """Returns where a signal is exported to: the configured endpoint, or else the endpoint of the standard variables; or None."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get(f"OTEL_{signal.upper()}_EXPORTER", "otlp") != "otlp":
        return None
    names = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    return configured or next((environ[name] for name in names if environ.get(name)), None)
