"""`python -m headrace.cli.supervised ...`: a `headrace` command that ends with its supervisor, however that ends.

Its standard input is a pipe whose other end only the supervisor has.
"""

import os
import signal
import threading
import time

from headrace.cli import main

_ENDS_WITHIN_S = 60.0


def _watch_supervisor() -> None:
    """Waits until the supervisor is gone; then the process is asked to end, and made to where it does not."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_ENDS_WITHIN_S)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_watch_supervisor, name="supervisor watchdog", daemon=True).start()
    main()
