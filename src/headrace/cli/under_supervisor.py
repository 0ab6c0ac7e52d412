"""`python -m headrace.cli.under_supervisor ...`: a `headrace` command that ends when its supervisor does, even if that is killed.

Standard input is a pipe whose other end only the supervisor holds. SIGHUP, with which a supervisor may let it begin blocked, ends
none of these commands, nor a program that one is replaced by.
"""

import os
import subprocess
import sys
from functools import partial

from headrace.cli import main, watchdog
from headrace.connectors_cli import execution
from headrace.processes import end_with_supervisor, ignore_hangups


def _leave_watchdog(pipe: int) -> None:
    """Starts a process that watches in the place of the thread, before this process is replaced by another program."""
    subprocess.Popen([sys.executable, "-I", "-S", watchdog.__file__, str(os.getpid())], stdin=pipe)


if __name__ == "__main__":
    ignore_hangups()
    execution.BEFORE.append(partial(_leave_watchdog, end_with_supervisor()))
    main()
