"""What kafka-python logs, without secrets, and without saying the same ten times a second while a broker is away."""

import logging
import time

_WITH_SECRETS = ("kafka.admin.client", "kafka.net.connection", "kafka.protocol.parser")
"""At debug level these log what clients are told, and what they send to log in."""
_REPEATING = ("kafka.cluster", "kafka.net.connection", "kafka.net.manager", "kafka.net.transport")
_REPEAT_SECONDS = 30.0


def tame() -> None:
    """Filters what kafka-python logs from now on."""
    for name in _WITH_SECRETS:
        logging.getLogger(name).addFilter(_without_secrets)
    for name in _REPEATING:
        logging.getLogger(name).addFilter(_seldom)


def _without_secrets(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG


def _seldom(record: logging.LogRecord) -> bool:
    """Whether it is a while ago that this warning was logged."""
    if record.levelno < logging.WARNING:
        return True
    now = time.monotonic()
    warning = (record.name, record.lineno)
    if now - _said.get(warning, -_REPEAT_SECONDS) < _REPEAT_SECONDS:
        return False
    _said[warning] = now
    return True


_said: dict[tuple[str, int], float] = {}
"""When a line of kafka-python's logged a warning last."""
