"""Counts of what connectors have done since the gateway started, by the name of the connector, not of its instances."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

MAX_CONNECTORS = 100
"""How many connectors are counted by name."""
OTHERS = "(others)"
"""The name of all those after that; no connector's name has parentheses."""


@dataclass(slots=True)
class ConnectorCounts:
    """The activity of the sessions of one connector.

    Attributes:
        role: `source` or `sink`.
        connector: Its name.
        sessions: How many it has opened: one more for each restart and reconnection.
        errors: The errors that it has reported.
        frames: The frames that it has sent.
        messages: Their messages, duplicates included.
        bytes: Their bytes.
    """

    role: str
    connector: str
    sessions: int = 0
    errors: int = 0
    frames: int = 0
    messages: int = 0
    bytes: int = 0


class Connectors:
    """The counts of all connectors. Bounded, however many names there are."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], ConnectorCounts] = {}

    def opened(self, role: str, connector: str) -> ConnectorCounts:
        """Counts a session; returns the counts that it adds to."""
        at = (role, connector)
        if at not in self._counts:
            at = at if len(self._counts) < MAX_CONNECTORS else (role, OTHERS)
        counts = self._counts.setdefault(at, ConnectorCounts(*at))
        counts.sessions += 1
        return counts

    def copied(self) -> Iterator[ConnectorCounts]:
        """Yields copies of all counts."""
        return (replace(counts) for counts in self._counts.values())
