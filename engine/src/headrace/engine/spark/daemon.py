"""A Python daemon for Spark that keeps idle workers alive.

Spark closes the connections of all workers after a minute without work. Its own workers then end, and lose the states that they
cache. These workers wait, and the daemon passes its next connection to one of them instead of forking. Between tasks, a worker
collects garbage.

Spark runs this module because of the setting `spark.python.daemon.module`. The daemon imports what its workers need, and they
share it: each would import it anew, in half a second of processor time. It forks, so nothing that it imports may start threads.
"""

import gc
import hmac
import importlib
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from errno import EINTR
from types import ModuleType
from typing import Any, NoReturn

import pyspark.daemon

from headrace.engine.collector import TaskGarbage
from headrace.engine.spark.worker_ends import end_in_order, kill_who_stays
from headrace.logs.output import configure_from_environment
from headrace.machine.ends import call_all
from headrace.machine.resources import keep_freed_memory

QUIET = "HEADRACE_QUIET"
"""The environment variable that silences a worker whose task Spark has ended."""
IDLE_S = "HEADRACE_IDLE_WORKER_S"
"""The environment variable for how long an idle worker waits, in seconds: an hour by default; 0 ends it, as in Spark."""
_NO_THREADS = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OMP_NUM_THREADS": "1"}
"""The variables without which Arrow and NumPy start threads when they are imported."""
_NEEDED = ("pyspark.worker", "headrace.engine.source.reader", "headrace.engine.sink.writer")
"""What the workers of most tasks import."""
_HOUR = 3600.0
_ANSWER_S = 5.0
_WAITS, _HANDED_OVER, _TAKEN = b"w", b"h", b"t"


class _Workers:
    """The daemon's connections to its workers, on which workers report that they are idle, and receive Spark's connections."""

    def __init__(self) -> None:
        self._all: list[socket.socket] = []
        self._waiting: list[socket.socket] = []
        self._next: socket.socket | None = None

    def add(self) -> None:
        """Creates a connection to a worker that is about to be forked."""
        self._close_next()
        own, self._next = socket.socketpair()
        self._all.append(own)

    def become_worker(self) -> socket.socket:
        """Returns the worker's end, in its process, and closes all others."""
        assert self._next is not None, "a worker is forked for a connection"
        for other in self._all:
            other.close()
        self._all, self._waiting = [], []
        return self._next

    def hand_over(self, connection: socket.socket) -> bool:
        """Passes a connection to an idle worker; returns whether one has accepted it."""
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
            # A worker that answers later finds the connection to the daemon closed, and ends.
            self._forget(worker)
        return False

    def _listen(self) -> None:
        """Reads which workers have become idle, and which have ended."""
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
    """The daemon's listening socket: it passes connections to idle workers, and returns the others."""

    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        if _workers.hand_over(connection):
            connection.close()
            # The daemon ignores this error and continues to listen.
            raise OSError(EINTR, "an idle worker has accepted the connection")
        _workers.add()
        return connection, address


class _Worker:
    """One worker, in its process.

    Args:
        run: Serves a connection once.
    """

    def __init__(self, run: Callable[[socket.socket, bool], int]) -> None:
        self._run = run
        self._daemon: socket.socket | None = None
        self._garbage = TaskGarbage()
        self._idle_s = float(os.environ.get(IDLE_S) or _HOUR)

    def __call__(self, connection: socket.socket, authenticated: bool) -> int:
        """Serves a connection; if Spark closes it while idle, waits for another one."""
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        if self._daemon is None:
            self._daemon = _workers.become_worker()
            end_in_order()
        while not (authenticated or _knows_secret(connection)) or _is_closed(connection):
            self._take_another(connection, self._daemon)
            authenticated = os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "false").lower() == "true"
        try:
            code = self._run(connection, True)
        except ConnectionError:
            if not os.environ.get(QUIET):
                raise
            # Spark has ended the task, and closed the connection: the worker ends, as it would with a traceback.
            os._exit(1)
        self._garbage.collect()
        return code

    def _take_another(self, connection: socket.socket, daemon: socket.socket) -> None:
        """Replaces a closed connection by the next one from the daemon; ends the process if none arrives in time."""
        if self._idle_s <= 0:
            _end()
        daemon.settimeout(self._idle_s)
        try:
            daemon.sendall(_WAITS)
            said, handed, _, _ = socket.recv_fds(daemon, 1, 1)
            if said != _HANDED_OVER or not handed:
                _end()
            os.dup2(handed[0], connection.fileno())
            os.close(handed[0])
            daemon.sendall(_TAKEN)
        except OSError:  # timeout, or the daemon has ended
            _end()
        # Spark expects the worker's pid first.
        connection.sendall(struct.pack("!i", os.getpid()))


def _end() -> NoReturn:
    """Ends this worker in order."""
    call_all()
    os._exit(0)


def _knows_secret(connection: socket.socket) -> bool:
    """Whether the client of a TCP connection presents Spark's secret; answers it accordingly."""
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
    """Waits for data; returns whether Spark has closed the connection instead."""
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except ConnectionError:
        return True


def report(*words: object, **options: Any) -> None:
    """Prints the reports of Spark's daemon, except those about connections that Spark has closed."""
    if not isinstance(sys.exc_info()[1], ConnectionError):
        print(*words, **options)


def import_needed() -> None:
    """Imports what workers need, if that starts no threads here. Otherwise each worker does it, and shows what fails."""
    if any(os.environ.setdefault(name, value) != value for name, value in _NO_THREADS.items()):
        return
    try:
        # The JVM reads standard output.
        with redirect_stdout(sys.stderr):
            for module in _NEEDED:
                importlib.import_module(module)
            # Arrow imports pandas, if there is one, with the first values from Python.
            importlib.import_module("pyarrow").array([None])
    except Exception:
        return
    # The collector would otherwise write to pages that the workers share.
    gc.freeze()


def main() -> None:
    """Runs the daemon, whose workers inherit how it logs, and how much memory they keep."""
    configure_from_environment()
    keep_freed_memory()
    import_needed()
    if os.environ.get(QUIET):
        vars(pyspark.daemon)["print"] = report
    sockets = ModuleType("socket")
    sockets.__dict__.update(vars(socket), socket=_Listening)
    vars(pyspark.daemon).update(socket=sockets, worker=_Worker(pyspark.daemon.worker))
    kill_who_stays()
    pyspark.daemon.manager()


if __name__ == "__main__":
    main()
