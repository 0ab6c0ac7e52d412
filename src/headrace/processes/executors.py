"""Finds Spark's executors among the processes of a session."""

import os
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
