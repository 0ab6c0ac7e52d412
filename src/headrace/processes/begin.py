"""Enters a folder, and is replaced by a program.

Run by its path, without the packages of Headrace, so that it is small. Python's own `cwd` would not do: until a child has entered
the folder, all threads of its parent stand still, for ever if the disk hangs.
"""

import os
import signal
import sys
from typing import NoReturn


def main(folder: str, *command: str) -> NoReturn:
    """Runs the command in the folder, or prints why that cannot be, and exits with 1: it may pass."""
    # Python ignores these, and a program inherits what is ignored.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.chdir(folder)
    except OSError as error:
        sys.exit(f"Error: {folder} cannot be the working directory: {error.strerror}")
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"Error: {command[0]} cannot be started: {error.strerror}")


if __name__ == "__main__":
    main(*sys.argv[1:])
