"""When a micro-batch without messages is due that records that the last one was read as it was planned.

Until then, a run that starts reads the last micro-batch of resumable streams again, and nothing of it is acknowledged. Any other
micro-batch records the same.
"""

import time
from collections.abc import Callable
from typing import Any

CONFIRM_AFTER_S = 1.0
"""For how long nothing else may have been planned, in seconds."""


class Confirmation:
    """Measures for how long a micro-batch has been the last one.

    Args:
        monotonic: Returns the time, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._start: dict[str, Any] | None = None
        self._since = 0.0

    def look(self, start: dict[str, Any]) -> None:
        """Notes the offset at which the last micro-batch has ended."""
        if start != self._start:
            self._start, self._since = start, self._monotonic()

    @property
    def is_due(self) -> bool:
        """Whether nothing else was planned for long enough."""
        return self._monotonic() - self._since >= CONFIRM_AFTER_S
