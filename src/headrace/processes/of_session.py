"""The processes of a session: Spark's executors among them, and their memory."""

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
