"""Sends syslog messages over TCP: `send.py ADDRESSES FIRST COUNT [BYTES]`, where ADDRESSES is what `--addresses` has written."""

import socket
import sys
import time
from pathlib import Path

DEADLINE_S = 30.0


def address(path: Path) -> tuple[str, int]:
    """Waits until the source listens."""
    deadline = time.monotonic() + DEADLINE_S
    while not path.exists():
        if time.monotonic() > deadline:
            sys.exit(f"{path} does not appear")
        time.sleep(0.02)
    host, _, port = path.read_text().split()[-1].rpartition(":")
    return host, int(port)


def main() -> None:
    """Sends, and waits until everything is read."""
    path, first, count, *size = sys.argv[1:]
    with socket.create_connection(address(Path(path)), timeout=DEADLINE_S) as connection:
        for number in range(int(first), int(first) + int(count)):
            text = "x" * int(size[0]) if size else f"message {number}"
            message = f"<13>1 2025-01-01T00:00:00Z host send {number} - - {text}".encode()
            connection.sendall(b"%d %s" % (len(message), message))
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)  # The source closes once it has read everything.


main()
