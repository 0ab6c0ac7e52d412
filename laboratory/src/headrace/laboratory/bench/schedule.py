"""When the messages of a benchmark are due: at a steady rate, with a burst if there is to be one."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

BURST_S = 1.0
BURST_TIMES = 10
"""The rate during a burst, as a multiple of the steady one."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Message n, counted from 1, is due some seconds after the beginning.

    Attributes:
        rate: Messages per second.
        seconds: How long messages are due.
        burst_at: When the burst begins, in seconds; None for no burst.
    """

    rate: float
    seconds: float
    burst_at: float | None = None

    @property
    def total(self) -> int:
        """The number of messages."""
        return self._due(self.seconds)

    def due(self, elapsed: float) -> int:
        """Returns how many messages are due some seconds after the beginning."""
        return self._due(min(elapsed, self.seconds))

    def moments(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Returns when messages are due, in seconds after the beginning."""
        steady: npt.NDArray[np.float64] = numbers / self.rate
        if self.burst_at is None:
            return steady
        during = self.burst_at + (steady - self.burst_at) / BURST_TIMES
        after = steady - (BURST_TIMES - 1) * BURST_S
        return np.where(steady <= self.burst_at, steady, np.where(during <= self.burst_at + BURST_S, during, after))

    def _due(self, elapsed: float) -> int:
        of_burst = 0.0 if self.burst_at is None else min(max(elapsed - self.burst_at, 0.0), BURST_S)
        # Rounded, since the last message is due at the very end.
        return int(self.rate * (elapsed + (BURST_TIMES - 1) * of_burst) + 1e-6)
