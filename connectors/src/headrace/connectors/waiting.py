"""What connectors report to the gateway: what they wait for, until all of it is over, and what they do only in part."""

import threading
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakKeyDictionary

from headrace.sdk import ConnectorState


class Reporting(Protocol):
    """A source or a sink."""

    def report_state(self, state: ConnectorState, reason: str = "") -> None:
        """Reports what the connector is doing."""


@dataclass(slots=True)
class _Reasons:
    """Why parts of a connector wait, and what is wrong with parts that work, by part; the oldest first."""

    waits: dict[str, str] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)

    @property
    def state(self) -> tuple[ConnectorState, str]:
        """The connector's report."""
        if self.waits:
            return ConnectorState.WAITING, next(iter(self.waits.values()))
        if self.warnings:
            return ConnectorState.DEGRADED, next(iter(self.warnings.values()))
        return ConnectorState.RUNNING, ""


_reasons: "WeakKeyDictionary[Reporting, _Reasons]" = WeakKeyDictionary()
_lock = threading.Lock()


def waits(connector: Reporting, part: str, reason: str) -> None:
    """Reports that a part of a connector waits for its system. May be called on any thread."""
    with _lock:
        reasons = _reasons.setdefault(connector, _Reasons())
        reasons.waits[part] = reason
        connector.report_state(*reasons.state)


def warns(connector: Reporting, part: str, reason: str) -> None:
    """Reports what is wrong with a part of a connector that works, from now on. May be called on any thread."""
    with _lock:
        reasons = _reasons.setdefault(connector, _Reasons())
        reasons.warnings[part] = reason
        connector.report_state(*reasons.state)


def fine(connector: Reporting, part: str) -> None:
    """Reports that what `warns` told of a part is over; has no effect if it told nothing. May be called on any thread."""
    with _lock:
        reasons = _reasons.get(connector)
        if reasons is not None and reasons.warnings.pop(part, None) is not None:
            connector.report_state(*reasons.state)


def goes_on(connector: Reporting, part: str) -> None:
    """Reports that a part of a connector no longer waits; has no effect if it did not. May be called on any thread."""
    # Called with each batch: the lock is taken only if something waits.
    reasons = _reasons.get(connector)
    if reasons is None or not reasons.waits:
        return
    with _lock:
        if reasons.waits.pop(part, None) is not None:
            connector.report_state(*reasons.state)


def is_near(deliveries: int, limit: int) -> bool:
    """Returns whether a message has used half of its deliveries.

    Args:
        deliveries: How often it has been delivered, this time included.
        limit: How often the queue delivers it at most; at least 1.
    """
    return limit == 1 or deliveries >= max(2, (limit + 1) // 2)
