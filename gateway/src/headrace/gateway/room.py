"""Which connection makes room for a new one. Whoever sends nothing, or no token, cannot keep others away."""

from collections import Counter
from collections.abc import Iterable
from typing import Protocol, TypeVar


class Connection(Protocol):
    """A connection."""

    @property
    def address(self) -> str:
        """The address that it comes from, without the port."""

    @property
    def is_known(self) -> bool:
        """Whether it has a request in progress of a caller with a right: it makes no room."""


_C = TypeVar("_C", bound=Connection)


def to_drop(connections: Iterable[_C], most: int, most_of_address: int) -> _C | None:
    """Returns the connection that must make room, if there are too many: of the address with most, the one that waits longest.

    Args:
        connections: All, in the order in which they began to wait: for their first request, or since their last one.
        most: How many there may be.
        most_of_address: How many of one address there may be without a request of a known caller.

    Returns:
        None if there is room, or if none of them makes room.
    """
    known = list(connections)
    strangers = [connection for connection in known if not connection.is_known]
    counts = Counter(connection.address for connection in strangers)
    if not strangers or (len(known) <= most and max(counts.values()) <= most_of_address):
        return None
    fullest = max(counts, key=counts.__getitem__)
    return next(connection for connection in strangers if connection.address == fullest)
