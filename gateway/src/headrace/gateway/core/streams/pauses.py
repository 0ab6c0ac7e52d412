"""Pauses: which parts, by whom, and their effect.

A paused stream is not read further: pipelines plan nothing new of it, and a replayable source is told to stop sending it.
A paused pipeline plans nothing new. A paused sink keeps the pipelines that write to it from planning. What was planned before
ends as usual: no transaction is aborted because of a pause, and what is committed is acknowledged.

A pause lasts until somebody ends it, or until the gateway ends, since a gateway keeps nothing. The configuration's pauses hold
whenever the gateway runs.
"""

from dataclasses import dataclass
from enum import StrEnum

from headrace.contract import clock
from headrace.contract.names import covers
from headrace.gateway.config import Paused
from headrace.gateway.core.base.bounds import MAX_POSITIONS, check_room

CONFIGURATION = "the configuration"
"""Who has paused what the configuration pauses."""


class PartKind(StrEnum):
    """What can be paused."""

    STREAM = "stream"
    CONNECTOR = "connector"
    PIPELINE = "pipeline"
    SINK = "sink"


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause."""

    part: str
    """The part that was paused, such as `connector orders`."""
    by: str
    """Who paused it."""
    since: float
    """On the monotonic clock."""


class Pauses:
    """The paused parts, whether or not the gateway knows the part at the moment."""

    def __init__(self, configured: Paused) -> None:
        self._requested: dict[tuple[PartKind, str], Pause] = {}
        self._configured = configured
        self._configured_since = clock.monotonic()

    def of(self, kind: PartKind, name: str) -> Pause | None:
        """Returns the pause of a part; None if it is not paused."""
        return self._requested.get((kind, name)) or self.by_configuration(kind, name)

    def by_configuration(self, kind: PartKind, name: str) -> Pause | None:
        """Returns the pause of a part that the configuration pauses."""
        patterns: tuple[str, ...] = getattr(self._configured, f"{kind}s")
        if not any(covers(pattern, name) for pattern in patterns):
            return None
        return Pause(f"{kind} {name}", CONFIGURATION, self._configured_since)

    def of_stream(self, stream: str, instance: str) -> Pause | None:
        """Returns the pause of a stream, or of the connector's instance that sends it."""
        return self.of(PartKind.STREAM, stream) or (self.of(PartKind.CONNECTOR, instance) if instance else None)

    def begin(self, kind: PartKind, name: str, by: str) -> Pause:
        """Pauses a part that is not paused.

        Raises:
            LimitExceeded: too much is paused.
        """
        check_room("pauses", self._requested, MAX_POSITIONS)
        pause = self._requested[kind, name] = Pause(f"{kind} {name}", by, clock.monotonic())
        return pause

    def end(self, kind: PartKind, name: str) -> bool:
        """Ends a pause, but not one by the configuration; returns whether there was one."""
        return self._requested.pop((kind, name), None) is not None

    def configure(self, configured: Paused) -> None:
        """Replaces what the configuration pauses."""
        if configured != self._configured:
            self._configured, self._configured_since = configured, clock.monotonic()
