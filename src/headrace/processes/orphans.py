"""Processes that others have left to this one, as to process 1 of a container: somebody must wait for them."""

import os
from contextlib import suppress

import psutil

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
