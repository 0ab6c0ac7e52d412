"""Addresses for servers that are restarted."""

import errno
import random
import socket


def free_address(host: str = "127.0.0.1") -> str:
    """Returns a free `HOST:PORT` outside the ephemeral range, so that no outgoing connection takes it between restarts.

    Args:
        host: One of this machine's addresses.

    Raises:
        OSError: `host` is not an address of this machine.
    """
    while True:
        port = random.randint(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return f"{host}:{port}"
