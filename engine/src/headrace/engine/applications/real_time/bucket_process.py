"""A process with a share of the buckets in real-time mode. The driver starts it, and sends it rows at a socket of their own.

It ends with the driver, whatever ends the driver. States that it has not saved are void then, as the states in the driver are.
"""

import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from pyspark import SparkFiles, cloudpickle

from headrace.contract.errors import HeadraceError
from headrace.engine.applications.real_time.buckets import Buckets, RowsByBucket, Saved
from headrace.engine.applications.stages.call_files import record_calls
from headrace.engine.applications.stages.plan import BlockRow, Plan
from headrace.engine.checkpoint.manifests import Bucket, Entry
from headrace.engine.checkpoint.state_files import StateFiles
from headrace.engine.collector import paused_collector
from headrace.logs.output import configure_from_environment
from headrace.pipelines.runtime import text_of

STOP_S = 10.0
"""How long a function may run after the driver has ended, in seconds, before the process ends anyway."""

_KNOWN = ("builtins", "headrace")
"""The packages whose errors every process can read. Those of an application may need modules that only it has."""
_Wire = dict[int, list[tuple[Any, ...]]]


class BucketProcess:
    """The process, for the driver. Each call that asks for something is followed by the call that waits for the answer.

    Args:
        plan: The plan.
        files: The files of states in the checkpoint.
    """

    def __init__(self, plan: Plan, files: StateFiles) -> None:
        self._socket, other = socket.socketpair()
        self._connection: Connection[Any, Any] = Connection(os.dup(self._socket.fileno()))
        command = [sys.executable, "-m", "headrace.engine.applications.real_time.bucket_process", str(other.fileno())]
        with other:
            # A session of its own: Ctrl-C is for the driver, which then stops this process.
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[other.fileno()], start_new_session=True)
        root = None if plan.programs is None else SparkFiles.getRootDirectory()
        # Functions that cannot be imported are sent whole, as to Spark's workers.
        self._ask("load", sys.path, cloudpickle.dumps((plan, files, root)))  # type: ignore[no-untyped-call]

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def begin(self, entries: Mapping[Bucket, Entry]) -> None:
        """Has it read the states that the first micro-batch continues from."""
        self._answer()
        self._ask("begin", entries)

    def await_begun(self) -> None:
        """Waits until it has read them.

        Raises:
            StateError: Stored states do not match the classes of the pipeline.
            HeadraceError: The process has ended.
        """
        self._answer()

    def process(self, level: int, rows: RowsByBucket) -> None:
        """Has it process rows at one level; see `Buckets.process`."""
        self._ask("process", level, _packed(rows))

    def processed(self) -> dict[int, list[BlockRow]]:
        """The rows for the next level and for sinks, by the bucket that they come from.

        Raises:
            StepError: A function raises, and its step's policy is `OnError.FAIL`.
            HeadraceError: The process has ended.
        """
        return _unpacked(self._answer())

    def save(self, batch: int, run: int | None) -> None:
        """Has it write the states that a micro-batch has changed."""
        self._ask("save", batch, run)

    def saved(self) -> Saved:
        """The states that it has written.

        Raises:
            StateError: A state cannot be stored.
            OSError: The file system failed.
            HeadraceError: The process has ended.
        """
        saved: Saved = self._answer()
        return saved

    def check(self) -> None:
        """Raises HeadraceError if the process has ended."""
        if self._process.poll() is not None:
            raise self._ended()

    def end(self) -> None:
        """Has it end, and a thread of the driver return that waits for its answer."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def await_end(self) -> None:
        """Waits until it has ended, after `end`, and kills it if a function still runs after STOP_S."""
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._socket.close()

    def _ask(self, *call: Any) -> None:
        try:
            self._connection.send(call)
        except OSError:
            raise self._ended() from None

    def _answer(self) -> Any:
        try:
            succeeded, result = self._connection.recv()
        except (EOFError, OSError):
            raise self._ended() from None
        if not succeeded:
            raise result
        return result

    def _ended(self) -> HeadraceError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        code = self._process.returncode
        how = f"has ended with exit code {code}"
        if code is None:
            how = "no longer answers"
        elif code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        return HeadraceError(
            f"process {self.pid}, which processes a share of the keys in real-time mode, {how}; the next run continues from the "
            "last committed micro-batch"
        )


class _Served:
    """The calls of the driver, by their names."""

    def __init__(self) -> None:
        self._plan: Plan | None = None
        self._files: StateFiles | None = None
        self._buckets: Buckets | None = None

    def load(self, path: list[str], packed: bytes) -> None:
        sys.path[:] = path
        self._plan, self._files, root = cloudpickle.loads(packed)
        if root is not None:
            SparkFiles._root_directory, SparkFiles._is_running_on_worker = root, True
        record_calls(self._plan.calls)

    def begin(self, entries: Mapping[Bucket, Entry]) -> None:
        assert self._plan is not None, "it has loaded"
        assert self._files is not None, "it has loaded"
        self._buckets = Buckets(self._plan, self._files, entries)

    def process(self, level: int, rows: _Wire) -> _Wire:
        assert self._buckets is not None, "it has begun"
        with paused_collector():
            return _packed(self._buckets.process(level, _unpacked(rows)))

    def save(self, batch: int, run: int | None) -> Saved:
        assert self._buckets is not None, "it has begun"
        return self._buckets.save(batch, run)


def _packed(rows: RowsByBucket) -> _Wire:
    """The rows as tuples, which take less time to pickle."""
    return {
        bucket: [
            (row.bucket, row.target, row.stream, row.sequence, row.messages, row.packed, row.peak, row.branch, row.first)
            for row in some
        ]
        for bucket, some in rows.items()
    }


def _unpacked(rows: _Wire) -> dict[int, list[BlockRow]]:
    return {bucket: [BlockRow(*values) for values in some] for bucket, some in rows.items()}


def _serve(connection: "Connection[Any, Any]") -> None:
    served = _Served()
    while True:
        name, *arguments = connection.recv()
        try:
            answer = True, getattr(served, name)(*arguments)
        except BaseException as error:  # Whatever a function raises belongs to the driver, which waits for the answer.
            answer = False, crossing(error)
        connection.send(answer)


def _end_late(socket_: int) -> None:
    """Ends this process some time after the driver, if a function still runs then."""
    hangup = select.poll()
    hangup.register(socket_, 0)
    hangup.poll()
    threading.Event().wait(STOP_S)
    os._exit(1)


def main() -> None:
    """Serves the driver until it ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # They are for the driver. Not ignored, since the programs of steps would inherit it.
        signal.signal(number, lambda *_: None)
    configure_from_environment()
    connection: Connection[Any, Any] = Connection(int(sys.argv[1]))
    os.set_inheritable(connection.fileno(), False)
    threading.Thread(target=_end_late, args=(connection.fileno(),), name="headrace-end", daemon=True).start()
    with suppress(EOFError, OSError):
        _serve(connection)


def crossing(error: BaseException) -> Exception:
    """The error itself if every process can read it, otherwise one with its type, its text, and where it was raised."""
    if isinstance(error, Exception) and type(error).__module__.partition(".")[0] in _KNOWN and _is_whole(error):
        return error
    trace = traceback.extract_tb(error.__traceback__)
    where = f" ({trace[-1].filename}, line {trace[-1].lineno}, in {trace[-1].name})" if trace else ""
    return HeadraceError(f"{type(error).__name__}: {text_of(error)}{where}")


def _is_whole(error: Exception) -> bool:
    """Whether an error arrives as it is: it may have arguments that cannot be pickled, or not be made of its arguments."""
    try:
        return text_of(pickle.loads(pickle.dumps(error))) == text_of(error) == str(error)
    except Exception:
        return False


if __name__ == "__main__":
    main()
