"""Imported by Python at its start: a process whose time of day is wrong by the seconds that a file has.

The clock of the machine cannot be set: others use it too.
"""

import os
import time
from pathlib import Path

_shift = Path(os.environ["TESTS_CLOCK_SHIFT_FILE"])
_now_ns = time.time_ns
time.time_ns = lambda: _now_ns() + round(float(_shift.read_text()) * 1e9)
time.time = lambda: time.time_ns() / 1e9
