"""Imported by Python at its start: a process whose time of day is wrong by the seconds that a file has.

The clock of the machine cannot be set: others use it too.
"""

import os
import time
from pathlib import Path

_shift = Path(os.environ["TESTS_CLOCK_SHIFT_FILE"])
_time_of_day = time.time
time.time = lambda: _time_of_day() + float(_shift.read_text())
