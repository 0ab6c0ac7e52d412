"""Decides which values are late, and what happens to them.

For the values of a stream, a window is closed once the stream's mark is past the window's end by the allowed delay. So whether a
value is late depends only on its own stream.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from headrace.pipelines.elements.elements import Elements
from headrace.pipelines.elements.message import NO_TIME
from headrace.pipelines.steps.step import Step, StepPass
from headrace.pipelines.windows.windows import Bounds, Grid, Session


class Late(Enum):
    """What happens to a value whose windows are all closed."""

    DROP = "drop"
    """It is dropped."""
    FIRE = "fire"
    """It makes a separate result immediately, of the last window that it belongs to, with only this value."""
    PLACE_IN_OLDEST = "place-in-oldest"
    """It is added to the oldest window that is still open at its mark."""


def windows_that_take(time: int, closed: int, windows: Grid | Session, opened: Iterable[Bounds]) -> Sequence[Bounds]:
    """Returns the windows that a value belongs to and that are not closed; none if the value is late.

    Args:
        time: The event time of the value.
        closed: The end of the last window that is closed.
        windows: The windows of the step.
        opened: The windows of the key that are open.
    """
    if isinstance(windows, Grid):
        return windows.open(time, closed)
    alone = windows.around(time)
    joins = alone[1] > closed or any(overlap(alone, other) for other in opened)
    return [alone] if joins else []


def overlap(one: Bounds, other: Bounds) -> bool:
    """Returns whether some time is in both windows."""
    return one[0] < other[1] and other[0] < one[1]


@dataclass(frozen=True, eq=False)
class LateValues(Step):
    """The values that arrive after all their windows were closed.

    Attributes:
        windows: The windows, whose bounds depend only on time, so no state is needed.
        held: How far the mark must be past a window's end to close it, in microseconds.
    """

    windows: Grid
    held: int

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The late values, unchanged."""
        times, marks = elements.times, elements.marks
        assert times is not None, "this step uses event time"
        assert marks is not None, "the graph puts such a step behind a key_by"
        known = (times != NO_TIME) & (marks != NO_TIME)
        ends = times - times % self.windows.every + self.windows.size
        return elements.pick(np.flatnonzero(known & (ends + self.held <= marks)).tolist())

    @property
    def uses_time(self) -> bool:
        """True: lateness depends on event time."""
        return True

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "late_values"
