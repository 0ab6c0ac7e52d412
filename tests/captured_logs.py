"""Captures the lines that a block of a test logs."""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from headrace.logs.repeats import fields_of


class _Taker(logging.Handler):
    def __init__(self, lines: list[dict[str, Any]]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append({**fields_of(record), "event": record.getMessage(), "log_level": record.levelname.lower()})


@contextlib.contextmanager
def capture_logs() -> Iterator[list[dict[str, Any]]]:
    """Takes all lines of Headrace, of any level: the event, its level and its fields. None of them is printed."""
    logger, lines = logging.getLogger("headrace"), list[dict[str, Any]]()
    before = logger.handlers, logger.level, logger.propagate
    logger.handlers, logger.propagate = [_Taker(lines)], False
    logger.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        logger.handlers, _, logger.propagate = before
        logger.setLevel(before[1])
