"""Refused calls and connections: which connection makes room for a new one, and the log's lines, which never show a token.

Whoever sends nothing, or no token, cannot keep others away.
"""

import logging
from collections import Counter
from collections.abc import Iterable
from typing import Protocol, TypeVar

log = logging.getLogger("headrace.gateway")
_MAX_ERROR_CHARACTERS = 1_000


def log_refusal(call: str, peer: str, error: str, caller: str | None = None) -> None:
    """Logs that a call was refused.

    The filter of the log holds back repeats, whatever the address. It tells lines apart by the call, which must therefore be a
    call that the gateway serves, and no name that a stranger has made up.

    Args:
        call: The method, or the path as in the gateway's rules, which has no names and no query.
        peer: The address of the caller.
        error: Its error.
        caller: The name of its token; None if it has none that is known.
    """
    known = {} if caller is None else {"caller": caller}
    log.warning("call refused", extra={"call": call, **known, "peer": peer, "error": error[:_MAX_ERROR_CHARACTERS]})


def log_dropped(protocol: str, peer: str) -> None:
    """Logs that a connection was dropped, to make room for others.

    Args:
        protocol: Its protocol.
        peer: The address of the client.
    """
    text = f"there are too many {protocol} connections of this address, or in all, and it has no call of a known caller"
    log.warning("connection dropped", extra={"peer": peer, "error": text})


def log_full(protocol: str, most: int) -> None:
    """Logs that nearly all connections have calls in progress, so that further ones are refused.

    Args:
        protocol: Their protocol.
        most: How many there may be.
    """
    log.warning(
        "connections refused", extra={"error": f"{full(protocol, most)}; allow more descriptors (ulimit -n), and restart"}
    )


def full(protocol: str, most: int) -> str:
    """Returns words for that: nearly all connections have calls in progress."""
    return f"nearly all of {most} {protocol} connections have calls in progress, and further ones are refused"


class Connection(Protocol):
    """A connection."""

    @property
    def address(self) -> str:
        """The address that it comes from, without the port."""

    @property
    def is_known(self) -> bool:
        """Whether it has a request in progress of a caller with a right: it makes no room."""


_C = TypeVar("_C", bound=Connection)


def to_drop(connections: Iterable[_C], most: int, max_of_address: int) -> _C | None:
    """Returns the connection that must make room if there are too many: the address with most of them loses its longest waiting.

    Args:
        connections: All, in the order in which they began to wait: for their first request, or since their last one.
        most: How many there may be.
        max_of_address: How many one address may have without a request of a known caller.

    Returns:
        None if there is room, or if none of them makes room.
    """
    known = list(connections)
    strangers = [connection for connection in known if not connection.is_known]
    counts = Counter(connection.address for connection in strangers)
    if not strangers or (len(known) <= most and max(counts.values()) <= max_of_address):
        return None
    fullest = max(counts, key=counts.__getitem__)
    return next(connection for connection in strangers if connection.address == fullest)
