"""`python -m headrace.cli.supervised ...`: a `headrace` command that ends when its supervisor does, even if that is killed.

Standard input is a pipe whose other end only the supervisor holds.
"""

import os
import subprocess
import sys

from headrace.cli import main, watchdog
from headrace.connectors_cli import execution
from headrace.processes import end_with_supervisor


def _leave_watchdog() -> None:
    """Starts a process that watches in the place of the thread, before this process is replaced by another program."""
    subprocess.Popen([sys.executable, "-I", "-S", watchdog.__file__, str(os.getpid())])
    # The program must not take the pipe for its own input.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


if __name__ == "__main__":
    execution.BEFORE.append(_leave_watchdog)
    end_with_supervisor()
    main()
