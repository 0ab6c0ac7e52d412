"""Filters the logs of the client libraries: no secrets, and no repetition ten times a second while a broker is unavailable."""

import logging

from headrace.logs.repeats import Repeats

_WITH_SECRETS = ("kafka.admin.client", "kafka.net.connection", "kafka.protocol.parser")
"""At debug level, these log the configuration of clients, and their credentials."""
LIBRDKAFKA = "headrace.connectors.kafka.librdkafka"
"""The logger that librdkafka writes to."""
_REPEATING = ("kafka.cluster", "kafka.net.connection", "kafka.net.manager", "kafka.net.transport", LIBRDKAFKA)
_REPEAT_S = 30.0


def tame() -> None:
    """Installs the filters."""
    for name in _WITH_SECRETS:
        logging.getLogger(name).addFilter(_without_secrets)
    for name in _REPEATING:
        logging.getLogger(name).addFilter(_seldom)


def _without_secrets(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG


def _seldom(record: logging.LogRecord) -> bool:
    """Returns whether this warning has not been logged recently."""
    if record.levelno < logging.WARNING:
        return True
    return _repeats.admit((record.name, record.lineno)) is not None


_repeats = Repeats(_REPEAT_S)
