"""Structured logs on standard error: one event per line, with its context as keys."""

import io
import logging
import os
import sys
from typing import TextIO

import structlog
from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger

from headrace.contract.printable import printable
from headrace.gateway.config import Log
from headrace.logs.output import hide_secrets
from headrace.logs.repeats import RepeatsFilter


def configure_logging(log: Log, stream: TextIO | None = None) -> None:
    """Sends the logs of structlog and the standard library to `stream` (default: standard error), in the configured format."""
    out = stream or sys.stderr
    terminal = out.isatty()
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _hide_secrets,
    ]
    if log.format == "json" or (log.format == "auto" and not terminal):
        render: list[Processor] = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        render = [
            _printable,
            structlog.dev.ConsoleRenderer(colors=terminal and "NO_COLOR" not in os.environ, exception_formatter=_traceback),
        ]
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    handler.addFilter(_is_no_departure)
    handler.addFilter(RepeatsFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(log.level.upper())
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _hide_secrets(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    fields = dict(event)
    hide_secrets(fields)
    return fields


def _printable(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Makes an event printable before it gets its colours: it may quote what a connector has said."""
    return {printable(name): printable(value) if isinstance(value, str) else value for name, value in event.items()}


def _traceback(out: TextIO, exception: ExcInfo) -> None:
    text = io.StringIO()
    structlog.dev.plain_traceback(text, exception)
    out.write(printable(text.getvalue()))


def _is_no_departure(record: logging.LogRecord) -> bool:
    """False for an answer that gRPC could not send, since its caller had gone: it logs that as an error, with a trace."""
    # Callers may also say that there is none, with False.
    return not record.exc_info or type(record.exc_info[1]).__name__ != "ExecuteBatchError"
