"""Connectors whose sessions end again and again. At each moment such a connector seems to be well, or has just left."""

from collections import OrderedDict
from dataclasses import dataclass, field

from headrace.contract import clock
from headrace.protocol.v1 import admin_pb2 as pb

MANY = 5
"""As many sessions of one connector within `WITHIN_S` are too many: a rolling restart opens one."""
WITHIN_S = 60.0
STANDS_AFTER_S = 10.0
"""A session that has lasted for this many seconds stands: what has ended the ones before it is over."""
MAX_PARTS = 1_000
"""How many connectors are followed: the last ones that have connected."""
MAX_LISTED = 200
_MAX_TEXT = 300


@dataclass(slots=True)
class _Sessions:
    """The last sessions of one connector."""

    opened: list[float] = field(default_factory=list)
    began_at: float = 0.0
    """When the series of sessions began, on the monotonic clock."""
    ended: str = ""


class Reconnections:
    """When each connector has connected lately."""

    def __init__(self) -> None:
        self._parts: OrderedDict[str, _Sessions] = OrderedDict()

    def opened(self, part: str) -> None:
        """Notes that a connector has opened a session."""
        now = clock.monotonic()
        sessions = self._parts.pop(part, None) or _Sessions()
        if not sessions.opened or now - sessions.opened[-1] > 2 * STANDS_AFTER_S:
            sessions.began_at = now
        sessions.opened.append(now)
        del sessions.opened[: -MANY * 20]
        self._parts[part] = sessions
        if len(self._parts) > MAX_PARTS:
            self._parts.popitem(last=False)

    def ended(self, part: str, how: str) -> None:
        """Notes how a session has ended; empty if nobody has said it."""
        if (sessions := self._parts.get(part)) is not None:
            sessions.ended = how[:_MAX_TEXT]

    def status(self) -> list[pb.ReconnectingPart]:
        """Returns the connectors whose last session does not stand, and that have opened many before it, the last ones first."""
        now = clock.monotonic()
        found: list[pb.ReconnectingPart] = []
        for part, sessions in reversed(self._parts.items()):
            if now - sessions.opened[-1] > WITHIN_S or len(found) == MAX_LISTED:
                break
            lately = sum(now - opened <= WITHIN_S for opened in sessions.opened)
            if lately >= MANY and now - sessions.opened[-1] <= STANDS_AFTER_S:
                age_ms = int((now - sessions.began_at) * 1000)
                found.append(pb.ReconnectingPart(part=part, sessions=lately, ended=sessions.ended, age_ms=age_ms))
        return found
