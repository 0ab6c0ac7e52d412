"""Spark's Python daemon, whose workers live on while Spark has no work for them.

Spark closes the connections of all workers after a minute without work. A worker ends then, and with it the states that it
holds. Here it waits for another connection, and the daemon hands it the next one instead of starting a process. Between its
tasks it collects what the last one has left behind.

Spark runs this module by its setting `spark.python.daemon.module`. It imports nothing that starts threads, as the daemon forks.
"""

import hmac
import os
import signal
import socket
import struct
from collections.abc import Callable
from errno import EINTR
from types import ModuleType
from typing import Any

import pyspark.daemon

from headrace.engine._collector import TaskGarbage

IDLE_SECONDS = "HEADRACE_IDLE_WORKER_SECONDS"
"""The environment variable that says for how long a worker waits; for an hour without it. At 0 it ends, as Spark's own do."""
_HOUR = 3600.0
_ANSWER_S = 5.0
_WAITS, _HANDED_OVER, _TAKEN = b"w", b"h", b"t"


class _Workers:
    """The connections between the daemon and its workers, by which a worker says that it waits and is handed a connection."""

    def __init__(self) -> None:
        self._all: list[socket.socket] = []
        self._waiting: list[socket.socket] = []
        self._next: socket.socket | None = None

    def add(self) -> None:
        """Makes a connection to a worker that is about to be forked."""
        self._close_next()
        own, self._next = socket.socketpair()
        self._all.append(own)

    def become_worker(self) -> socket.socket:
        """The worker's end, in its process, which is to have no others."""
        assert self._next is not None, "a worker is forked for a connection"
        for other in self._all:
            other.close()
        self._all, self._waiting = [], []
        return self._next

    def hand_over(self, connection: socket.socket) -> bool:
        """Hands a connection to a worker that waits; whether one has taken it."""
        self._close_next()
        self._listen()
        while self._waiting:
            worker = self._waiting.pop()
            try:
                worker.settimeout(_ANSWER_S)
                socket.send_fds(worker, [_HANDED_OVER], [connection.fileno()])
                if worker.recv(1) == _TAKEN:
                    return True
            except OSError:
                pass
            # One that answers too late finds the connection to the daemon closed, and ends.
            self._forget(worker)
        return False

    def _listen(self) -> None:
        """Finds out which workers have begun to wait, and which are gone."""
        for worker in tuple(self._all):
            worker.setblocking(False)
            try:
                said = worker.recv(1)
            except BlockingIOError:
                continue
            except OSError:
                said = b""
            if said == _WAITS:
                self._waiting.append(worker)
            else:
                self._forget(worker)

    def _forget(self, worker: socket.socket) -> None:
        worker.close()
        self._all.remove(worker)
        if worker in self._waiting:
            self._waiting.remove(worker)

    def _close_next(self) -> None:
        if self._next is not None:
            self._next.close()
            self._next = None


_workers = _Workers()


class _Listening(socket.socket):
    """What the daemon listens on: connections that are for workers which wait do not come up."""

    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        if _workers.hand_over(connection):
            connection.close()
            # The daemon goes on listening after this one.
            raise OSError(EINTR, "a worker that waited has taken the connection")
        _workers.add()
        return connection, address


class _Worker:
    """One worker, in its process.

    Args:
        run: Does what comes by a connection, once.
    """

    def __init__(self, run: Callable[[socket.socket, bool], int]) -> None:
        self._run = run
        self._daemon: socket.socket | None = None
        self._garbage = TaskGarbage()
        self._idle_s = float(os.environ.get(IDLE_SECONDS) or _HOUR)

    def __call__(self, connection: socket.socket, authenticated: bool) -> int:
        """Waits for work and does it; takes another connection where Spark closes this one."""
        for number in (signal.SIGHUP, signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        if self._daemon is None:
            self._daemon = _workers.become_worker()
        while not (authenticated or _knows_secret(connection)) or _is_closed(connection):
            self._take_another(connection, self._daemon)
            authenticated = os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "false").lower() == "true"
        code = self._run(connection, True)
        self._garbage.collect()
        return code

    def _take_another(self, connection: socket.socket, daemon: socket.socket) -> None:
        """Has another connection in the place of one that is closed; ends the process where none comes."""
        if self._idle_s <= 0:
            os._exit(0)
        daemon.settimeout(self._idle_s)
        try:
            daemon.sendall(_WAITS)
            said, handed, _, _ = socket.recv_fds(daemon, 1, 1)
            if said != _HANDED_OVER or not handed:
                os._exit(0)
            os.dup2(handed[0], connection.fileno())
            os.close(handed[0])
            daemon.sendall(_TAKEN)
        except OSError:  # nothing came for so long, or the daemon is gone
            os._exit(0)
        # What a worker says first.
        connection.sendall(struct.pack("!i", os.getpid()))


def _knows_secret(connection: socket.socket) -> bool:
    """Whether whoever has connected by TCP knows what Spark has told the daemon, and is told so."""
    try:
        (size,) = struct.unpack("!i", connection.recv(4, socket.MSG_WAITALL))
        secret = os.environ["PYTHON_WORKER_FACTORY_SECRET"].encode()
        knows = size == len(secret) and hmac.compare_digest(connection.recv(size, socket.MSG_WAITALL), secret)
        answer = b"ok" if knows else b"err"
        connection.sendall(struct.pack("!i", len(answer)) + answer)
    except (OSError, struct.error):
        return False
    return knows


def _is_closed(connection: socket.socket) -> bool:
    """Waits until something comes; whether Spark has closed the connection instead."""
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except ConnectionError:
        return True


def main() -> None:
    """Runs the daemon."""
    sockets = ModuleType("socket")
    sockets.__dict__.update(vars(socket), socket=_Listening)
    vars(pyspark.daemon).update(socket=sockets, worker=_Worker(pyspark.daemon.worker))
    pyspark.daemon.manager()


if __name__ == "__main__":
    main()
