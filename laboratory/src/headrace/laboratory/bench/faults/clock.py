"""A command of `headrace` with another time of day: `python -m headrace.laboratory.bench.faults.clock FILE ARGUMENTS...`.

The file has the seconds by which its clock is wrong. The clock of the machine cannot be set: others use it too.
"""

import runpy
import sys
import time
from contextlib import suppress
from pathlib import Path


class _Clock:
    """The machine's clock, and the seconds by which it is wrong, as far as the file can be read."""

    def __init__(self, shift: Path) -> None:
        self._shift = shift
        self._now_ns = time.time_ns
        self._wrong_s = 0.0

    def now_ns(self) -> int:
        """Returns the time."""
        with suppress(OSError):  # the descriptors of the process may be exhausted
            self._wrong_s = float(self._shift.read_text())
        return self._now_ns() + round(self._wrong_s * 1e9)


if __name__ == "__main__":
    _clock = _Clock(Path(sys.argv.pop(1)))
    time.time_ns = _clock.now_ns
    time.time = lambda: time.time_ns() / 1e9
    runpy.run_module("headrace.cli", run_name="__main__", alter_sys=True)
