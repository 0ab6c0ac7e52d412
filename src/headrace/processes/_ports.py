"""Addresses for servers that are started again and again."""

import random
import socket
from contextlib import suppress


def free_address() -> str:
    """An address of this machine for a server that is started again and again: outside what outgoing connections are given."""
    while True:
        port = random.randint(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return f"127.0.0.1:{port}"
