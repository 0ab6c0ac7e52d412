"""Kills the brokers of a folder when the parent process ends, even if that is killed.

Its standard input is a pipe that closes when the parent ends.
"""

import shutil
import sys
from pathlib import Path

from scripts.brokers._broker import kill_all


def main(folder: Path) -> None:
    """Waits for the end of the parent, then kills the brokers and removes the folder."""
    sys.stdin.read()
    kill_all(folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
