"""Ends with the process that started it, in whatever way that ended, and takes the brokers of a folder with it.

It is started with a pipe as its standard input, which ends when its parent does.
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
