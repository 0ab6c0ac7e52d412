"""Connects the planner, which Spark runs in a process of its own, with the worker in the driver."""

import os
import socket
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from headrace.engine.applications.real_time.bucket_process import crossing
from headrace.engine.applications.real_time.parts import Run
from headrace.engine.applications.real_time.worker import Reached, RealTimeWorker
from headrace.engine.applications.stages.plan import BlockRow
from headrace.engine.checkpoint.manifests import Manifest
from headrace.engine.checkpoint.position import Position
from headrace.engine.source.ranges import Ends
from headrace.machine.owned_folder import OwnedFolder, abandoned, remove

PARENT = Path("/tmp")
"""The path of a socket has at most 107 bytes, and the folder for temporary files may have a long one."""
PREFIX = "headrace-real-time-"


class SocketFolder:
    """A folder that only this user can read.

    Attributes:
        path: The folder.
    """

    def __init__(self) -> None:
        """Creates it, and removes the folders of drivers that were killed."""
        for folder in abandoned(PARENT, PREFIX):
            remove(folder)
        self._owned = OwnedFolder(PARENT, PREFIX)
        self.path = self._owned.path

    def remove(self) -> None:
        """Removes it with all that is in it."""
        remove(self.path)
        self._owned.release()


Present = Callable[[], tuple[int, Manifest, Run]]
"""Returns the next micro-batch, the states that it continues from, and the run of the query."""


class Service:
    """Serves the planner of one start of a query, at a Unix domain socket in a folder of its own.

    Only the user of the driver, who runs the planner too, can open the socket.

    Args:
        worker: The worker.
        present: Where the query is.
    """

    def __init__(self, worker: RealTimeWorker, present: Present) -> None:
        self._worker = worker
        self._present = present
        self._folder = SocketFolder()
        self.path = str(self._folder.path / "planner")
        """The path of the socket."""
        self._listener = Listener(self.path, "AF_UNIX")
        self._planner: Connection[Any, Any] | None = None
        self._lock = threading.Lock()
        self._stopped = False
        self._calls: Mapping[str, Callable[..., Any]] = {
            "begin": self._begin,
            "pause": worker.pause,
            "resume": worker.resume,
            "close": worker.close,
        }
        self._thread = threading.Thread(target=self._serve, name="headrace-planner", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the worker and the connection, and waits for them."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        self._worker.stop()
        # Wakes the thread, whether it waits for the planner's next call or for a planner.
        with self._lock:
            if self._planner is not None:
                _shut_down(self._planner)
        Client(self.path, "AF_UNIX").close()
        self._thread.join()
        self._listener.close()
        self._folder.remove()

    def _serve(self) -> None:
        """Serves one planner after the other: Spark has one for a query."""
        while not self._stopped:
            with self._listener.accept() as planner:
                with self._lock:
                    self._planner = planner
                try:
                    while not self._stopped:
                        planner.send(self._answer(*planner.recv()))
                except (EOFError, OSError):
                    continue
                finally:
                    with self._lock:
                        self._planner = None

    def _answer(self, call: str, *arguments: Any) -> tuple[bool, Any]:
        """Whether a call has succeeded, and its result or its error."""
        try:
            return True, self._calls[call](*arguments)
        except BaseException as error:  # Whatever a call raises belongs to the planner, which waits for the answer.
            return False, crossing(error)

    def _begin(self, pipeline: bytes) -> None:
        batch, continued, run = self._present()
        self._worker.begin(batch, continued, run, pipeline)


def _shut_down(connection: "Connection[Any, Any]") -> None:
    """Has calls of other threads return: they do not notice that a file descriptor is closed."""
    with socket.socket(fileno=os.dup(connection.fileno())) as same, suppress(OSError):
        same.shutdown(socket.SHUT_RDWR)


class ServedWorker:
    """The worker, for the planner.

    Args:
        path: The path of the socket.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: Connection[Any, Any] | None = None

    def begin(self, pipeline: bytes) -> None:
        """See `RealTimeWorker.begin`; the driver knows the other arguments."""
        self._call("begin", pipeline)

    def pause(self, follow: Mapping[str, Position | None], awaited: Collection[str] = ()) -> dict[str, Reached] | None:
        """See `RealTimeWorker.pause`."""
        reached: dict[str, Reached] | None = self._call("pause", follow, awaited)
        return reached

    def resume(self) -> None:
        """See `RealTimeWorker.resume`."""
        self._call("resume")

    def close(self, ends: Ends) -> list[BlockRow]:
        """See `RealTimeWorker.close`."""
        rows: list[BlockRow] = self._call("close", ends)
        return rows

    def _call(self, *call: Any) -> Any:
        if self._connection is None:
            self._connection = Client(self._path, "AF_UNIX")
        self._connection.send(call)
        succeeded, result = self._connection.recv()
        if not succeeded:
            raise result
        return result
