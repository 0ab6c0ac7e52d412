"""What steps have done, for metrics: measured once for many elements, never for each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from headrace.pipelines.steps.meters import Series, added


@dataclass(slots=True)
class StepMeasures:
    """What one step has done.

    Attributes:
        received: The elements that it has received.
        sent: The elements that are its results.
        failed: The elements for which its function raised, and that were skipped or became dead letters.
        late: The elements that arrived after their windows were closed.
        ahead: The elements whose event times were too far ahead.
        violated: The messages that broke a source's contract, even if they only lost values.
        further: The messages with fields that their class does not have, and that a source's contract permits.
        fired: The timers that have fired, and windows that have closed.
        time_ns: The time that it has taken, in nanoseconds. Steps run side by side in tasks; their times are added.
        series: Its series, if it is a counter or histogram.
    """

    received: int = 0
    sent: int = 0
    failed: int = 0
    late: int = 0
    ahead: int = 0
    violated: int = 0
    further: int = 0
    fired: int = 0
    time_ns: int = 0
    series: Series | None = None

    def add(self, other: "StepMeasures") -> None:
        """Adds what the same step has done elsewhere."""
        for name in _NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.series = added(self.series, other.series)


_NAMES = tuple(field.name for field in fields(StepMeasures) if field.type is int)


def summed(measures: Iterable[Mapping[str, StepMeasures]]) -> dict[str, StepMeasures]:
    """The sums of measures, by step."""
    sums: dict[str, StepMeasures] = {}
    for by_step in measures:
        for step, of_step in by_step.items():
            sums.setdefault(step, StepMeasures()).add(of_step)
    return sums
