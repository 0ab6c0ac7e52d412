"""A process that outlasts its parent's replacement by another program, and ends that program when its supervisor ends.

Run by its path, without the packages of Headrace, so that it is small. Standard input is a pipe whose other end only the
supervisor holds; the argument is the process id of the parent, which keeps it when it is replaced.
"""

import contextlib
import os
import select
import signal
import sys
import time

_LOOK_EVERY_S = 1.0
_ENDED_EVERY_S = 0.1
_ENDS_WITHIN_S = 60.0


def main(parent: int) -> None:
    """Waits until the supervisor or the parent is gone; ends the parent if that is still running."""
    while os.getppid() == parent:
        ready, _, _ = select.select([0], [], [], _LOOK_EVERY_S)
        if ready and not os.read(0, 1024):
            _end(parent)
            return


def _end(parent: int) -> None:
    deadline = time.monotonic() + _ENDS_WITHIN_S
    with contextlib.suppress(ProcessLookupError):
        os.kill(parent, signal.SIGTERM)
        while os.getppid() == parent:
            if time.monotonic() > deadline:
                os.kill(parent, signal.SIGKILL)
            time.sleep(_ENDED_EVERY_S)


if __name__ == "__main__":
    main(int(sys.argv[1]))
