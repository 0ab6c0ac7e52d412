"""What connectors wait for, as they report it to the gateway: the first reason, until all of it is over."""

import threading
from typing import Protocol
from weakref import WeakKeyDictionary

from headrace.sdk import ConnectorState


class Reporting(Protocol):
    """A source or a sink."""

    def report_state(self, state: ConnectorState, reason: str = "") -> None:
        """Reports what the connector is doing."""


_reasons: "WeakKeyDictionary[Reporting, dict[str, str]]" = WeakKeyDictionary()
"""For each connector, why parts of it wait, by part; the one that has waited longest first."""
_lock = threading.Lock()


def waits(connector: Reporting, part: str, reason: str) -> None:
    """Reports that a part of a connector waits for its system. May be called on any thread."""
    with _lock:
        reasons = _reasons.setdefault(connector, {})
        reasons[part] = reason
        connector.report_state(ConnectorState.WAITING, next(iter(reasons.values())))


def goes_on(connector: Reporting, part: str) -> None:
    """Reports that a part of a connector no longer waits; has no effect if it did not. May be called on any thread."""
    # Called with each batch: the lock is taken only if something waits.
    if not _reasons.get(connector):
        return
    with _lock:
        reasons = _reasons[connector]
        if reasons.pop(part, None) is None:
            return
        if reasons:
            connector.report_state(ConnectorState.WAITING, next(iter(reasons.values())))
        else:
            connector.report_state(ConnectorState.RUNNING)
