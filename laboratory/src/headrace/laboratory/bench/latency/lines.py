"""An at-least-once sink that appends lines to a file: `python -m headrace.laboratory.bench.latency.lines GATEWAY FOLDER`."""

import os
import sys
from pathlib import Path

from headrace.sdk import Rows, Sink, run


class Lines(Sink):
    """Appends the value of each message to one file, which anyone may read at once."""

    name = "bench"

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / "all.lines", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, rows: Rows) -> None:
        """Appends the rows."""
        os.write(self._file, b"".join(b"%s\n" % message.value for message in rows.messages()))


def command(address: str, folder: Path) -> list[str]:
    """Returns the command of the sink, for Python."""
    return ["-m", "headrace.laboratory.bench.latency.lines", address, str(folder)]


if __name__ == "__main__":
    sys.exit(run(Lines(Path(sys.argv[2])), gateway=sys.argv[1]))
