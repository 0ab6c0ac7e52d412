"""Free ports that stay free, so that a restarted broker gets the same one."""

import random
import socket
from collections.abc import Iterable

LOOPBACK = "127.0.0.1"
# Below the ephemeral range of any system: an outgoing connection could take the port while its broker is down.
_CHOICE = range(20_000, 32_000)


def is_free(port: int) -> bool:
    """Whether a server could listen on a port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def choose(preferred: int | None, taken: Iterable[int]) -> int:
    """Returns the preferred port if it is free, else a random free one."""
    if preferred is not None and is_free(preferred):
        return preferred
    candidates = random.sample(_CHOICE, 200)
    return next(port for port in candidates if port not in taken and is_free(port))


def exchange(port: int, request: bytes, size: int) -> bytes:
    """Sends a request, and returns at most `size` bytes of the response; empty if there is none within two seconds."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=2.0) as connection:
            connection.sendall(request)
            return connection.recv(size)
    except OSError:
        return b""
