"""A command of `headrace` with another time of day: `python -m headrace.laboratory.bench.faults.clock FILE ARGUMENTS...`.

The file has the seconds by which its clock is wrong. The clock of the machine cannot be set: others use it too.
"""

import runpy
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    _shift = Path(sys.argv.pop(1))
    _now_ns = time.time_ns
    time.time_ns = lambda: _now_ns() + round(float(_shift.read_text()) * 1e9)
    time.time = lambda: time.time_ns() / 1e9
    runpy.run_module("headrace.cli", run_name="__main__", alter_sys=True)
