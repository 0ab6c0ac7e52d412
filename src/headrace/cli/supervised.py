"""`python -m headrace.cli.supervised ...`: a `headrace` command that ends when its supervisor does, even if that is killed.

Standard input is a pipe whose other end only the supervisor holds.
"""

import os
import signal
import subprocess
import sys
import threading
import time

from headrace.cli import main, watchdog
from headrace.connectors_cli import execution

_ENDS_WITHIN_S = 60.0


def _watch_supervisor() -> None:
    """Waits until the supervisor is gone, then sends SIGTERM to this process, and ends it by force if it is still running."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_ENDS_WITHIN_S)
    os._exit(1)


def _leave_watchdog() -> None:
    """Starts a process that watches in the place of the thread, before this process is replaced by another program."""
    subprocess.Popen([sys.executable, "-I", "-S", watchdog.__file__, str(os.getpid())])
    # The program must not take the pipe for its own input.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


if __name__ == "__main__":
    execution.BEFORE.append(_leave_watchdog)
    threading.Thread(target=_watch_supervisor, name="supervisor watchdog", daemon=True).start()
    main()
