"""The gateway's log on standard error, as all parts log: one event per line, with its fields."""

import logging
import os
import sys
from typing import TextIO

from headrace.gateway.config import Log
from headrace.logs.output import ConsoleFormatter, JsonFormatter
from headrace.logs.repeats import RepeatsFilter


def configure_logging(log: Log, stream: TextIO | None = None) -> None:
    """Sends the standard library's logging to `stream` (default: standard error), in the configured format."""
    out = stream or sys.stderr
    terminal = out.isatty()
    is_json = log.format == "json" or (log.format == "auto" and not terminal)
    people = ConsoleFormatter(with_fields=True, colors=terminal and "NO_COLOR" not in os.environ)
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonFormatter() if is_json else people)
    handler.addFilter(_is_no_departure)
    handler.addFilter(RepeatsFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(log.level.upper())


def _is_no_departure(record: logging.LogRecord) -> bool:
    """Returns False for the error, with its trace, that gRPC logs if a caller has gone before its answer could be sent."""
    # Callers may also say that there is none, with False.
    return not record.exc_info or type(record.exc_info[1]).__name__ != "ExecuteBatchError"
