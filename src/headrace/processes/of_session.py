"""Processes that others have started: of a session, Spark's executors among them, and children that nobody waits for."""

import os
from collections.abc import Collection
from contextlib import suppress

import psutil

_JVM = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_WORKER = ["pyspark.daemon", "pyspark.worker"]


def executors(session: int, is_cluster: bool) -> list[int]:
    """Returns the process ids of the executors in a session: JVMs on a cluster, the Python workers of tasks elsewhere.

    Args:
        session: The id of the process that leads it: a driver, or a worker of a standalone cluster.
        is_cluster: Whether executors are separate JVMs.
    """
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            if os.getsid(process.pid) == session and (_is_jvm(process) if is_cluster else _is_worker(process)):
                found.append(process.pid)
    return found


def _is_jvm(process: psutil.Process) -> bool:
    return _JVM in process.cmdline()


def _is_worker(process: psutil.Process) -> bool:
    """Whether a process is a worker, forked by the daemon; the daemon itself is a child of the JVM."""
    parent = process.parent()
    return process.cmdline()[-2:] == _WORKER and parent is not None and parent.cmdline()[-2:] == _WORKER


def memory_of_sessions(sessions: Collection[int]) -> dict[int, int]:
    """Returns the resident memory of all processes of each session, in bytes, by session. Pages that they share count for each.

    A process that ends meanwhile, or may not be looked at, counts as 0.
    """
    found = dict.fromkeys(sessions, 0)
    if not found:
        return {}
    for pid in psutil.pids():
        try:
            session = os.getsid(pid)
            if session in found:
                found[session] += psutil.Process(pid).memory_info().rss
        except (OSError, psutil.Error):
            continue
    return found


LOOK_EVERY_S = 10.0
LEFT_FOR_S = 60.0
"""For how long a process must have ended: whoever has started it here has waited for it by then."""


class Orphans:
    """Waits for children that have ended, and that nobody waits for. Otherwise the system runs out of process ids."""

    def __init__(self) -> None:
        """Knows none yet."""
        self._since: dict[int, float] = {}
        self._looked_at = float("-inf")

    def look(self, now: float) -> None:
        """Waits for children that ended long ago, as of `now` on a monotonic clock. It costs little: it looks every 10 s."""
        if now - self._looked_at < LOOK_EVERY_S:
            return
        self._looked_at = now
        ended = [child.pid for child in psutil.Process().children() if _has_ended(child)]
        self._since = {pid: self._since.get(pid, now) for pid in ended}
        for pid, since in self._since.items():
            if now - since >= LEFT_FOR_S:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def _has_ended(child: psutil.Process) -> bool:
    try:
        return bool(child.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
