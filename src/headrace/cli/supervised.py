"""`python -m headrace.cli.supervised ...`: a `headrace` command that ends when its supervisor does, even if that is killed.

Standard input is a pipe whose other end only the supervisor holds.
"""

import os
import signal
import threading
import time

from headrace.cli import main

_ENDS_WITHIN_S = 60.0


def _watch_supervisor() -> None:
    """Waits until the supervisor is gone, then sends SIGTERM to this process, and ends it by force if it is still running."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_ENDS_WITHIN_S)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_watch_supervisor, name="supervisor watchdog", daemon=True).start()
    main()
