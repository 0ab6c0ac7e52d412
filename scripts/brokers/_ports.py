"""Free ports that stay free: a broker that is killed gets its own one again."""

import random
import socket
from collections.abc import Iterable

LOOPBACK = "127.0.0.1"
# Below what any system gives to outgoing connections, one of which could hold the port while its broker is away.
_CHOICE = range(20_000, 32_000)


def is_free(port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def choose(preferred: int | None, taken: Iterable[int]) -> int:
    """The preferred port where it is free, else any that is."""
    if preferred is not None and is_free(preferred):
        return preferred
    candidates = random.sample(_CHOICE, 200)
    return next(port for port in candidates if port not in taken and is_free(port))


def exchange(port: int, request: bytes, size: int) -> bytes:
    """Sends a request to a server, and gives the first bytes of its answer; nothing where there is none within two seconds."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=2.0) as connection:
            connection.sendall(request)
            return connection.recv(size)
    except OSError:
        return b""
