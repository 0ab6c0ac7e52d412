"""Ends Spark's Python workers in order, although their daemon ends them with a signal."""

import atexit
import os
import select
import signal
from types import FrameType, ModuleType
from typing import Any

import pyspark.daemon

from headrace.machine.ends import MAX_WAIT_S, call_all


def end_in_order() -> None:
    """Has SIGHUP end this worker in order. Spark would reset the handler of the signal."""
    signals = ModuleType("signal")
    signals.__dict__.update(vars(signal), signal=_set)
    vars(pyspark.daemon)["signal"] = signals
    signal.signal(signal.SIGHUP, _end)


def kill_who_stays(longest_s: float = MAX_WAIT_S + 2) -> None:
    """Has this daemon kill the workers that are still there some time after its end: a call into native code defers their signal.

    The daemon leads their process group.
    """
    ended, lives = os.pipe()
    atexit.register(_kill_who_stays, os.getpid(), ended, lives, longest_s)


def _kill_who_stays(daemon: int, ended: int, lives: int, longest_s: float) -> None:
    if os.getpid() != daemon:
        return
    # Each worker has inherited the other descriptor of the pipe, which closes with the last of them.
    os.close(lives)
    if not select.select([ended], [], [], longest_s)[0]:
        os.killpg(daemon, signal.SIGKILL)


def _set(number: int, handler: Any) -> Any:
    return signal.getsignal(number) if number == signal.SIGHUP else signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    call_all()
    os._exit(128 + number)
