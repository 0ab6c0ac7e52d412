"""Ends this process when its supervisor ends, even if that is killed."""

import os
import signal
import threading
import time

_ENDS_WITHIN_S = 60.0


def end_with_supervisor() -> None:
    """Sends SIGTERM to this process once its supervisor has ended, and ends it by force a minute later.

    Standard input must be a pipe whose other end only the supervisor holds, as of an `OwnedProcess` that `ends_with_parent`.
    """
    threading.Thread(target=_watch, name="supervisor watchdog", daemon=True).start()


def _watch() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_ENDS_WITHIN_S)
    os._exit(1)
