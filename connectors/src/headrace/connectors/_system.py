"""Remembers whether a connector has reached its system.

Certificates and authorities are never replaced on both sides at the same moment. So what both sides present may stop fitting for
a while: a connector that has reached its system waits for that to be over, while one that never has is configured wrongly.
"""

from pydantic import PrivateAttr

from headrace.connectors._parameters import Parameters


class SystemParameters(Parameters):
    """The parameters of a connector that connects to a system."""

    _reached: set[str] = PrivateAttr(default_factory=set)

    def note_reached(self, library: str = "") -> None:
        """Notes that the system was reached, by one client library if the connector has several. Any thread may call it."""
        self._reached.add(library)

    def was_reached(self, library: str = "") -> bool:
        """Returns whether the system was ever reached with these parameters, by this client library."""
        return library in self._reached
