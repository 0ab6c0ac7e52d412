"""For whom a request is meant, and from where it comes: the headers Host and Origin, by a grammar of what is allowed.

A header that does not follow the grammar names nobody. Nothing here parses by other rules than it accepts, so no name exists that
one side takes for this machine's and the other for a stranger's.
"""

import re
from collections.abc import Sequence

from headrace.contract.addresses import is_loopback

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(rf"(?P<host>{_LABEL}(?:\.{_LABEL})*\.?|\[[0-9a-f:.]+\])(?::[0-9]{{1,5}})?", re.ASCII)
"""A name or an IPv4 address, or an IPv6 address in brackets, with or without a port (RFC 9110, 7.2; RFC 1123)."""
_MAX_HOST = 253 + len(":65535")
_ORIGIN = re.compile(r"https?://(?P<authority>[^/?#@\s\\]+)", re.ASCII)
"""The serialization of an origin (RFC 6454, 6.2), whose authority is as in Host. An opaque origin is `null`."""


def host_of(headers: Sequence[str]) -> str | None:
    """Returns the name of the server that a request asks for, without port and in lower case; None if none is well-formed.

    Args:
        headers: All values of the header Host.
    """
    if len(headers) != 1 or len(headers[0]) > _MAX_HOST:
        return None
    found = _HOST.fullmatch(headers[0].lower())
    return found["host"].removeprefix("[").removesuffix("]") if found else None


def is_own_name(host: str) -> bool:
    """Returns whether a name from `host_of` is one that only this machine gives itself, and no name server another one."""
    return is_loopback(host)


def is_same_origin(origin: str, hosts: Sequence[str]) -> bool:
    """Returns whether an Origin names the server that the request asks for, by whatever scheme: a proxy may end TLS.

    Args:
        origin: The value of the header Origin.
        hosts: All values of the header Host.
    """
    found = _ORIGIN.fullmatch(origin.lower())
    return found is not None and host_of(hosts) is not None and found["authority"] == hosts[0].lower()
