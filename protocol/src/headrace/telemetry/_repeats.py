"""Keeps a collector that is away from filling the log."""

import logging

from headrace.contract.repeats import Repeats


class ExportRepeats(logging.Filter):
    """Passes an error of a kind once in a while: a collector that is away is no reason to fill the log.

    Args:
        every_s: How long a kind is silent after it was logged, in seconds.
    """

    def __init__(self, every_s: float) -> None:
        super().__init__()
        self._repeats = Repeats(every_s)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is logged. Attempts that are repeated are not worth a line; there are few kinds of errors."""
        if record.levelno < logging.ERROR:
            return False
        kind = (record.msg, record.args[:1] if isinstance(record.args, tuple) else None)
        return self._repeats.admit(kind) is not None
