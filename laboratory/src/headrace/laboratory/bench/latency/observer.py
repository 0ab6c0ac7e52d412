"""Watches the files of a sink, in a separate process: within the driver's, it would delay the driver.

`python -m headrace.laboratory.bench.latency.observer FOLDER MESSAGES SECONDS FILE` writes `Output.sightings` to a file.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from pyspark.sql.streaming.query import StreamingQuery

from headrace.laboratory.bench.output import Output, Sightings
from headrace.laboratory.bench.rig import STOP_S, wait_for

_MODULE = "headrace.laboratory.bench.latency.observer"
_GRACE_S = 30.0
"""How long the process may take to start, and to report, in seconds."""


@dataclass(frozen=True, slots=True)
class Observer:
    """A running observer."""

    process: "subprocess.Popen[bytes]"
    file: Path
    timeout_s: float

    def sightings(self, query: StreamingQuery) -> Sightings:
        """Waits until every message is visible. Returns what was seen.

        Raises:
            RuntimeError: Fewer messages became visible in time.
        """
        wait_for("the messages to be visible", partial(self._has_ended, query), self.timeout_s + _GRACE_S)
        if self.process.returncode:
            raise RuntimeError(f"the observer ended with {self.process.returncode}; its errors are above")
        seen: Sightings = np.load(self.file)
        return seen

    def _has_ended(self, query: StreamingQuery) -> bool:
        if failure := query.exception():
            raise failure
        return self.process.poll() is not None


@contextmanager
def observer(folder: Path, messages: int, timeout_s: float, file: Path) -> Iterator[Observer]:
    """Watches a folder until this many messages are visible, and kills the process if it runs when the block ends.

    Args:
        folder: The folder of the sink.
        messages: The number of messages to wait for.
        timeout_s: How long to wait for them, in seconds.
        file: A new file for what is seen.
    """
    command = [sys.executable, "-m", _MODULE, str(folder), str(messages), str(timeout_s), str(file)]
    process = subprocess.Popen(command)
    try:
        yield Observer(process, file, timeout_s)
    finally:
        process.kill()
        process.wait(STOP_S)


def main() -> None:
    """Watches a folder."""
    folder, messages, timeout_s, file = sys.argv[1:]
    try:
        seen = Output(Path(folder)).sightings(int(messages), float(timeout_s))
    except TimeoutError as error:
        sys.exit(str(error))
    np.save(file, seen)


if __name__ == "__main__":
    main()
