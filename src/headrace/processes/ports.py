"""Addresses for servers that are started again and again."""

import errno
import random
import socket


def free_address(host: str = "127.0.0.1") -> str:
    """An address of this machine for a server that is started again and again: outside what outgoing connections are given.

    Args:
        host: One of this machine's addresses.

    Raises:
        OSError: it is none of them.
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
