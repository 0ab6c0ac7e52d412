"""The logs of all parts: one event per line on standard error, as JSON in one schema or for people."""

import json
import logging
import os
import sys
import time
from datetime import UTC, datetime
from typing import Any

from headrace.contract.errors import HeadraceError
from headrace.contract.printable import printable
from headrace.logs.context import context_fields
from headrace.logs.repeats import RepeatsFilter, fields_of

FORMAT_VARIABLE = "HEADRACE_LOG_FORMAT"
VERBOSE_VARIABLE = "HEADRACE_VERBOSE"
_OFF = frozenset({"", "0", "false", "no", "off"})
FORMATS = ("console", "json")
HEAD = ("timestamp", "level", "logger", "event")
"""The fields of every line."""
FIELDS = (
    "pipeline",
    "query",
    "run",
    "batch",
    "partition",
    "stream",
    "sink",
    "session",
    "instance",
    "trace_id",
    "error",
    "exception",
    "repeats",
    "by",
    "call",
    "caller",
    "peer",
)
"""The fields that mean the same in every line that contains them."""
SECRET_FIELDS = frozenset({"authorization", "token", "sha256", "password"})
HIDDEN = "(hidden)"
_COLORS = {logging.WARNING: 33, logging.ERROR: 31, logging.CRITICAL: 31}
"""Of levels in a terminal: yellow and red."""


class LogFormatError(HeadraceError):
    """HEADRACE_LOG_FORMAT names a format that does not exist."""

    exit_code = 2


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON, with what `extra` has added to it and with the fields of `log_fields`."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line."""
        document: dict[str, Any] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **context_fields(),
            **fields_of(record),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        hide_secrets(document)
        return json.dumps(document, default=str)


class ConsoleFormatter(logging.Formatter):
    """Formats a record for people: `2026-01-31T12:00:00.250Z WARNING: what happened`.

    Args:
        with_fields: Whether the fields of a line follow, as `name=value`: for events whose text does not contain them.
        colors: Whether a terminal shows warnings and errors in colours.
    """

    # In UTC, so that logs of hosts in several time zones can be compared.
    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self, *, with_fields: bool = False, colors: bool = False) -> None:
        super().__init__("%(asctime)s %(levelname)s: %(message)s")
        self._with_fields = with_fields
        self._colors = _COLORS if colors else {}

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line, and its traceback. Either may quote what another program has said."""
        line, color = printable(super().format(record)), self._colors.get(record.levelno)
        return line if color is None else line.replace(record.levelname, f"\x1b[{color}m{record.levelname}\x1b[0m", 1)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Returns the line without its traceback."""
        fields = {**context_fields(), **fields_of(record)}
        repeats = fields.pop("repeats", None)
        hide_secrets(fields)
        line = super().formatMessage(record) + (f" ({repeats} more like this)" if repeats else "")
        return line + "".join(f" {name}={_field_text(value)}" for name, value in fields.items()) if self._with_fields else line


def _field_text(value: object) -> str:
    """The text of a field; in quotes if it is empty or contains blanks."""
    text = str(value)
    return text if text and not set(text) & set(" \n\t'\"") else repr(text)


def hide_secrets(fields: dict[str, Any]) -> None:
    """Replaces the values of fields that may contain secrets."""
    for name in SECRET_FIELDS & fields.keys():
        fields[name] = HIDDEN


def configure_logging(form: str, level: int) -> None:
    """Sends the standard library's logging to standard error, unless the program has configured it itself.

    Args:
        form: One of `FORMATS`.
        level: The least level that is logged.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else ConsoleFormatter())
    handler.addFilter(RepeatsFilter())
    logging.basicConfig(handlers=[handler], level=level)


def is_verbose() -> bool:
    """Returns whether HEADRACE_VERBOSE asks for more than problems; empty, `0`, `false`, `no` and `off` do not."""
    return os.environ.get(VERBOSE_VARIABLE, "").strip().lower() not in _OFF


def configure_from_environment() -> None:
    """Configures logging if HEADRACE_LOG_FORMAT is set: at level info if `is_verbose`, at level warning otherwise.

    Raises:
        LogFormatError: The variable has another value than one of `FORMATS`.
    """
    form = os.environ.get(FORMAT_VARIABLE)
    if not form:
        return
    if form not in FORMATS:
        raise LogFormatError(f"{FORMAT_VARIABLE}: {form!r} is not {' or '.join(FORMATS)}")
    configure_logging(form, logging.INFO if is_verbose() else logging.WARNING)
