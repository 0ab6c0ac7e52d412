"""`python -m headrace.deploy._leash ...`: a `headrace` command that ends with its supervisor, however that ends.

Its standard input is a pipe whose other end only the supervisor has.
"""

import os
import signal
import threading
import time

from headrace.cli import main

_ENDS_WITHIN_S = 60.0


def _hold() -> None:
    """Waits until the supervisor is gone; then the process is asked to end, and made to where it does not."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_ENDS_WITHIN_S)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_hold, name="leash", daemon=True).start()
    main()
