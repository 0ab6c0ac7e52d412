"""Follows the file of a deployment while it runs: whether it is valid as it is on the disk now, with all files that it names."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.contract.certificates import Stamp, stamp_of
from headrace.deploy.reload import ENDS_WITHIN_S, Replan
from headrace.deploy.sources import sources_beside

LOOK_EVERY_S = 1.0
MAX_CAUSE = 500
_LEAVES_WITHIN_S = 1.0

Check = Callable[[], Sequence[Path]]
"""Reads and checks the file of a deployment without importing its applications, and returns the files that it has read."""


@dataclass(frozen=True, slots=True)
class FileFault:
    """Why the file of a deployment is invalid.

    Attributes:
        cause: Why, in one line.
        since: Since when, on the monotonic clock.
        needs_import: Whether only an import of the applications shows that it is over.
    """

    cause: str
    since: float
    needs_import: bool = False


class FileWatch:
    """Looks on a thread of its own, so that the supervisor never waits for the disk. It applies nothing: SIGHUP does."""

    def __init__(self, name: str, check: Check, replan: Replan) -> None:
        """Starts nothing yet.

        Args:
            name: The name of the file, for people.
            check: Reads the file; raises a HeadraceError if it is invalid.
            replan: The same, and imports the applications.
        """
        self._name = name
        self._check = check
        self._replan = replan
        self._fault: FileFault | None = None
        self._lock = threading.Lock()
        self._reloads = 0
        """How often SIGHUP had the file read: what was read earlier tells nothing after that."""
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._news: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._stamps: dict[Path, Stamp] | None = None
        self._files: Sequence[Path] = ()
        self._is_checked = True
        """Whether the file was valid, apart from the imports, when it was last read."""
        self._imports = False

    @property
    def fault(self) -> FileFault | None:
        """Why the file is invalid; None if it is valid, or was when it was last read."""
        return self._fault

    def look(self) -> list[str]:
        """Starts the thread, unless it runs. Returns lines for people about what it has found since the last call."""
        if not self._closed.is_set() and (self._thread is None or not self._thread.is_alive()):
            thread = threading.Thread(target=self._follow, name="deployment-file", daemon=True)
            thread.start()
            self._thread = thread
        return [self._news.get_nowait() for _ in range(self._news.qsize())]

    def reloaded(self, error: BaseException | None) -> None:
        """Notes how SIGHUP has found the file and its applications: why they are invalid, or None if they are valid."""
        with self._lock:
            self._reloads += 1
            # A file that has changed during that import is not noticed otherwise.
            self._stamps = None
            self._note(error, needs_import=True)

    def stop(self) -> None:
        """Ends an import that is in progress, and looks no more; the fault stays as it is. Waits for nothing."""
        self._closed.set()

    def close(self) -> None:
        """Ends the thread. One that hangs on its disk is left behind."""
        self.stop()
        if self._thread is not None:
            self._thread.join(ENDS_WITHIN_S if self._imports else _LEAVES_WITHIN_S)

    def _follow(self) -> None:
        while not self._closed.wait(LOOK_EVERY_S):
            reloads, fault = self._reloads, self._fault
            imports = fault is not None and fault.needs_import
            # All applications start at once to be imported: only a change can end such a fault.
            stamps = {path: stamp_of(path) for path in (sources_beside(self._files) if imports else self._files)}
            with self._lock:
                if reloads != self._reloads:
                    continue
                has_changed, self._stamps = stamps != self._stamps, stamps
            # A file that could not be used is read again each time: a disk that fails once does not change the file.
            if has_changed or not self._is_checked:
                self._read(needs_import=imports)

    def _read(self, *, needs_import: bool) -> None:
        """Reads the file, and tells if it is invalid for another reason than before, or valid again."""
        reloads, before = self._reloads, self._fault
        error: BaseException | None = None
        self._is_checked = False
        try:
            self._files = self._check()
            self._is_checked = True
            if needs_import:
                self._imports = True
                self._replan(self._closed.is_set)
        except BaseException as failed:
            # Also SystemExit of a plugin.
            error = failed
        finally:
            self._imports = False
        with self._lock:
            if self._closed.is_set() or reloads != self._reloads:
                self._stamps = None
                return
            self._note(error, needs_import=needs_import)
            fault = self._fault
        if fault is None and before is not None:
            self._news.put(f"{self._name} is valid again; SIGHUP applies it")
        elif fault is not None and (before is None or before.cause != fault.cause):
            self._news.put(f"{self._name} is invalid, and what was valid before stays in effect: {fault.cause}")

    def _note(self, error: BaseException | None, *, needs_import: bool) -> None:
        if error is None:
            self._fault = None
            return
        cause = " ".join((str(error) or type(error).__name__).split())[:MAX_CAUSE]
        since = time.monotonic() if self._fault is None else self._fault.since
        self._fault = FileFault(cause, since, needs_import)
