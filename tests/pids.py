"""Processes by their ids."""

import psutil


def lives(pid: int) -> bool:
    """Whether a process runs; one that only waits for its parent to be told does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
