"""The memory of processes and of what they have started."""

import os
from collections.abc import Collection

import psutil


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
