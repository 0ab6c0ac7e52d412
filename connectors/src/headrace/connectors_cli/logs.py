"""Logging of connectors to standard error: one line per event, with the time in the same format as the gateway's."""

import logging
import sys
import time


def configure_logging(level: int) -> None:
    """Sends the standard library's logging to standard error: `2026-01-31T12:00:00.250Z WARNING: what happened`."""
    formatter = logging.Formatter("%(asctime)s %(levelname)s: %(message)s")
    # In UTC, so that logs of hosts in several time zones can be compared.
    formatter.converter = time.gmtime
    formatter.default_time_format, formatter.default_msec_format = "%Y-%m-%dT%H:%M:%S", "%s.%03dZ"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=level)
