"""Ends Spark's Python workers in order, although their daemon ends them with a signal."""

import os
import signal
from types import FrameType, ModuleType
from typing import Any

import pyspark.daemon

from headrace.machine.ends import call_all


def end_in_order() -> None:
    """Has SIGHUP end this worker in order. Spark would reset the handler of the signal."""
    signals = ModuleType("signal")
    signals.__dict__.update(vars(signal), signal=_set)
    vars(pyspark.daemon)["signal"] = signals
    signal.signal(signal.SIGHUP, _end)


def _set(number: int, handler: Any) -> Any:
    return signal.getsignal(number) if number == signal.SIGHUP else signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    call_all()
    os._exit(128 + number)
