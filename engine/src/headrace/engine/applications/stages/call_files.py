"""Files in which the processes of an application record what they process, and what the driver reads in them.

A function may end its process, crash it, or not return. Its process cannot tell then, but the driver still has its file. On
another machine, Spark reads the file, and puts it into the error of the task.
"""

import errno
import faulthandler
import logging
import mmap
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.machine.owned_folder import OwnedFolder, abandoned, remove
from headrace.pipelines.runtime import RECORD_BYTES, call_record
from headrace.protocol.v1.metrics_pb2 import RUN_FAULT_KIND_FUNCTION_RUNS, RunFault

PREFIX = "headrace-calls-"
LOOKS_EVERY_S = 1.0
KEPT_S = 30.0
"""How long the file of a process that has died is kept, in seconds: Spark reads it for the error of the task."""
LONG_S = 6.0
"""How long a call runs before the log and the gateway name it, in seconds: with the next look, report and status, health does so
within ten. The log names it again after twice the time, and so on."""
_SPARK_FOLDER = "PYTHON_FAULTHANDLER_DIR"
"""The environment variable with the folder in which Spark looks for the file of a worker that has died."""
_WATCH = Path(__file__).with_name("call_watch.py")

_CANNOT_RECORD = "cannot record what functions process, to explain a crash: %s"

log = logging.getLogger("headrace.engine")
_recording = threading.local()


def record_calls(folder: str | None) -> None:
    """Has what this thread processes recorded: for the driver if it is on this machine, otherwise for Spark.

    Args:
        folder: The folder of the driver.
    """
    here = folder if folder is not None and os.path.isdir(folder) else None
    at = os.getpid(), here
    if getattr(_recording, "at", None) == at:
        return
    _recording.at = at
    own = Path(os.environ[_SPARK_FOLDER], str(os.getpid())) if _SPARK_FOLDER in os.environ else None
    path = Path(here, f"{os.getpid()}.{threading.get_native_id()}") if here is not None else own
    if path is None:
        call_record().keep_in(None)
        return
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # Of a full disk, a write tells this; a process that changes a page which the disk cannot keep is killed.
            if os.pwrite(file, bytes(RECORD_BYTES), 0) < RECORD_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            call_record().keep_in(mmap.mmap(file, RECORD_BYTES))
        finally:
            os.close(file)
        if own is not None:
            _show_spark(own, path)
    except OSError as error:
        error.filename = error.filename or str(path)
        log.warning(_CANNOT_RECORD, error)


def _show_spark(own: Path, path: Path) -> None:
    """Has Spark find the record, and behind it the place in the code where the process crashed."""
    if own != path:
        link = own.with_name(f"{own.name}.link")
        link.symlink_to(path)
        link.replace(own)
    # Spark's own handler would write over the record.
    faulthandler.enable(path.open("ab"))


@dataclass(frozen=True)
class Call:
    """The activity of a process.

    Attributes:
        pid: The process.
        text: The pipeline, the step, the stream and the message.
        seconds: How long it has been doing so, in seconds, as far as the driver has seen.
    """

    pid: int
    text: str
    seconds: float


class CallFiles:
    """The files of one start of an application, in a folder of its own. The driver looks into them in a thread of its own.

    They explain what a function does, and nothing depends on them: where they cannot be, the log names the error.

    Args:
        watches_driver: Whether functions run in the driver itself, so that another process must tell what has ended it.
    """

    def __init__(self, *, watches_driver: bool) -> None:
        parent = Path(tempfile.gettempdir())
        for folder in abandoned(parent, PREFIX):
            remove(folder)
        self._owned: OwnedFolder | None = None
        self.path: str | None = None
        """The folder; None if it could not be created."""
        self._previous: dict[str, tuple[str, float, float]] = {}
        """The text of each file, since when it is there, and after how many seconds it is named."""
        self._died: dict[str, float] = {}
        """When the process of a file was found dead."""
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._reason = ""
        self._watch: subprocess.Popen[bytes] | None = None
        try:
            self._owned = OwnedFolder(parent, PREFIX)
            self.path = str(self._owned.path)
            if watches_driver:
                command = [sys.executable, "-I", "-S", str(_WATCH), self.path, str(os.getpid())]
                self._watch = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        except OSError as error:
            log.warning(_CANNOT_RECORD, error)
        self._thread = threading.Thread(target=self._run, name="headrace-calls", daemon=True)
        self._thread.start()

    def running(self) -> list[Call]:
        """The calls that run for longer than LOOKS_EVERY_S."""
        now = time.monotonic()
        with self._lock:
            seen = dict(self._previous)
        return [
            Call(_pid(name), text, now - since)
            for name, (text, since, _) in seen.items()
            if text and now - since >= LOOKS_EVERY_S
        ]

    def close(self) -> None:
        """Names the processes that have died while they processed something, and removes the files."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._thread.join()
        self._look()
        if self._owned is not None:
            remove(self._owned.path)
        if self._watch is not None:
            assert self._watch.stdin is not None
            self._watch.stdin.close()
            self._watch.wait()
        if self._owned is not None:
            self._owned.release()

    def _run(self) -> None:
        while not self._ended.wait(LOOKS_EVERY_S):
            self._look()

    def _look(self) -> None:
        try:
            paths = [] if self._owned is None else list(self._owned.path.glob("[0-9]*"))
        except OSError as error:
            if str(error) != self._reason:
                self._reason = str(error)
                log.warning("cannot look at what functions process: %s; this is tried again", error)
            return
        now, found = time.monotonic(), dict[str, tuple[str, float, float]]()
        for path in paths:
            with suppress(OSError):
                text = path.read_bytes()[:RECORD_BYTES].decode(errors="replace").strip()
                if not _is_alive(_pid(path.name)):
                    self._note_dead(path, text, now)
                    continue
                self._died.pop(path.name, None)
                before, since, named = self._previous.get(path.name, ("", now, LONG_S))
                if text != before:
                    since, named = now, LONG_S
                if text and now - since >= named:
                    log.warning("a function has been running for %.0f s: %s", now - since, text)
                    named *= 2
                found[path.name] = text, since, named
        with self._lock:
            self._previous = found

    def _note_dead(self, path: Path, text: str, now: float) -> None:
        """Names what a process has died of once, and removes its file once Spark has had time to read it."""
        if path.name not in self._died:
            self._died[path.name] = now
            if text:
                log.error("a Python process of the application has died while it processed %s", text)
        elif now - self._died[path.name] >= KEPT_S:
            del self._died[path.name]
            path.unlink()


def function_runs(calls: Sequence[Call]) -> RunFault | None:
    """The fault that the longest of these calls is for its run, for the gateway; None if it does not take long."""
    longest = max(calls, key=lambda call: call.seconds, default=None)
    if longest is None or longest.seconds < LONG_S:
        return None
    message = f"a function has been running for {longest.seconds:.0f} s: {longest.text}"
    return RunFault(kind=RUN_FAULT_KIND_FUNCTION_RUNS, message=message, age_ms=round(longest.seconds * 1000))


def _pid(name: str) -> int:
    return int(name.partition(".")[0])


def _is_alive(pid: int) -> bool:
    """Whether a process runs; one that its parent has not waited for yet does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
