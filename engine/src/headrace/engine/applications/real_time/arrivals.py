"""Messages that have arrived, in order, and how many of them are processed before the worker looks up."""

from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from headrace.engine.applications.real_time.following import Arrived
from headrace.engine.checkpoint.position import Position
from headrace.engine.codec import cut, sequences_of

SLICE_S = 0.025
"""About how long a slice takes, in seconds: the delay of its first result, and the time that the planner waits for its end."""
SLICE_BYTES = 2**20
"""About the largest size of the messages of a slice, in bytes."""
FIRST_MESSAGES = 16
"""The number of messages in the first slice, when nothing is known of the functions."""
MAX_MESSAGES = 65_536
_GROWTH = 2


class Arrivals:
    """The messages that wait to be processed. They are taken in slices that take about the same time, however slow functions are.

    Attributes:
        bytes: The size of the frames that wait, in bytes; one counts until all of it is taken.
    """

    def __init__(self) -> None:
        self._waiting: deque[Arrived] = deque()
        self._offset = 0
        """The number of messages of the first frame that were taken."""
        self._sequences: npt.NDArray[np.int64] | None = None
        """Those of the first frame, once it is divided."""
        self._most = FIRST_MESSAGES
        self.bytes = 0

    def __bool__(self) -> bool:
        """Whether messages wait."""
        return bool(self._waiting)

    def put(self, arrived: Sequence[Arrived]) -> None:
        """Adds messages."""
        self._waiting.extend(arrived)
        self.bytes += sum(map(_size, arrived))

    def take(self) -> list[Arrived]:
        """Removes the next slice, which has a message if any wait."""
        taken: list[Arrived] = []
        messages = size = 0
        while self._waiting and messages < self._most and size < SLICE_BYTES:
            first = self._waiting[0]
            each = _size(first) // first.frame.rows + 1
            rows = max(1, min(self._most - messages, (SLICE_BYTES - size) // each))
            taken.append(self._take_of_first(rows))
            messages += taken[-1].frame.rows
            size += _size(taken[-1])
        return taken

    def took(self, messages: int, seconds: float) -> None:
        """Decides how many messages the next slices have, from how long one took."""
        wanted = int(messages * SLICE_S / max(seconds, 1e-6))
        # A slice of few messages says little about many.
        self._most = max(1, min(wanted, max(_GROWTH * messages, FIRST_MESSAGES), MAX_MESSAGES))

    def _take_of_first(self, rows: int) -> Arrived:
        first, begin = self._waiting[0], self._offset
        end = begin + rows
        if end >= first.frame.rows:
            self._waiting.popleft()
            self.bytes -= _size(first)
            sequences, self._sequences, self._offset = self._sequences, None, 0
            if begin == 0 or sequences is None:
                return first
            rest = cut(first.frame, int(sequences[begin - 1]), first.frame.last)
            assert rest is not None, "a message is left"
            return first._replace(frame=rest)
        if self._sequences is None:
            self._sequences = sequences_of(first.frame)
        after = int(self._sequences[begin - 1]) if begin else first.frame.first - 1
        last = int(self._sequences[end - 1])
        part = cut(first.frame, after, last)
        assert part is not None, "a message is left"
        self._offset = end
        return Arrived(part, Position(first.end.epoch, last))


def _size(arrived: Arrived) -> int:
    frame = arrived.frame
    return len(frame.values) + len(frame.keys) + len(frame.header_values) + 16 * frame.rows
