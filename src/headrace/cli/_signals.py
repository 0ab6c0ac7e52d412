"""Signals that end a command which has started processes of its own."""

import signal
import sys
from types import FrameType


def end_at_sigterm() -> None:
    """Has SIGTERM end the program as an exception does, so that whatever it has started is ended, too; exit code 143."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(signal_number: int, frame: FrameType | None) -> None:
    sys.exit(128 + signal_number)
