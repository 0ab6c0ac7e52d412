"""The series of measurements, and the verdict on each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.laboratory.soak.memory import Memory
from headrace.laboratory.soak.slope import Slope, Verdict, fit, judge

MOMENTARY = 5
"""A process with fewer measurements, such as a command that Spark runs, is ignored."""
TOGETHER = "all processes"
HEAP = "driver's JVM: heap alive"


@dataclass
class Series:
    """The memory of one process, or of something like it, over time.

    Attributes:
        name: Its name.
        pid: The process id; None for what is not a single process.
        times_s: The times of the measurements, in seconds since the run began.
        own: The memory that is judged, in MB.
        resident: The resident memory, in MB.
    """

    name: str
    pid: int | None
    times_s: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    resident: list[float] = field(default_factory=list)

    def note(self, at_s: float, memory: Memory) -> None:
        """Adds a measurement."""
        self.times_s.append(at_s)
        self.own.append(memory.own)
        self.resident.append(memory.resident)

    def since(self, begin_s: float) -> "Series":
        """Returns the measurements from a time on."""
        at = next((index for index, time_s in enumerate(self.times_s) if time_s >= begin_s), len(self.times_s))
        return Series(self.name, self.pid, self.times_s[at:], self.own[at:], self.resident[at:])


@dataclass(frozen=True)
class Judged:
    """The verdict on a series after the warm-up.

    Attributes:
        series: The measurements after the warm-up.
        slope: The slope of the fitted line, in MB per hour; None if there are too few measurements.
        bound: The allowed growth, in MB per hour.
        verdict: The verdict.
    """

    series: Series
    slope: Slope | None
    bound: float
    verdict: Verdict


@dataclass
class Record:
    """All series of a run."""

    processes: dict[int, Series] = field(default_factory=dict)
    together: Series = field(default_factory=lambda: Series(TOGETHER, None))
    heap: Series = field(default_factory=lambda: Series(HEAP, None))

    def note(self, at_s: float, memories: Mapping[int, tuple[str, Memory]]) -> None:
        """Adds the memory of all processes at a time."""
        for pid, (name, memory) in memories.items():
            series = self.processes.setdefault(pid, Series(name, pid))
            # A process that was just forked still has the name of its parent.
            series.name = name
            series.note(at_s, memory)
        total = [memory for _, memory in memories.values()]
        self.together.note(at_s, Memory(sum(m.resident for m in total), sum(m.own for m in total)))

    def note_heap(self, measured: Iterable[tuple[float, float]]) -> None:
        """Replaces the measurements of the heap."""
        self.heap = Series(HEAP, None)
        for at_s, alive in measured:
            self.heap.note(at_s, Memory(alive, alive))

    def judged(self, warm_up_s: float, bound: float) -> list[Judged]:
        """Returns the verdict on each series after the warm-up; processes that started or ended meanwhile are too short.

        All processes together may grow as much as two of them, to detect many that grow a little, or a growing number of them.
        """
        end_s = self.together.times_s[-1] if self.together.times_s else 0.0
        lasting = [series for series in self.processes.values() if len(series.times_s) >= MOMENTARY]
        found = [_judged(series, warm_up_s, end_s, bound) for series in [*lasting, self.heap]]
        return [*found, _judged(self.together, warm_up_s, end_s, 2 * bound)]


def _judged(series: Series, warm_up_s: float, end_s: float, bound: float) -> Judged:
    after = series.since(warm_up_s)
    wanted_s = (end_s - warm_up_s) / 2
    lived_s = after.times_s[-1] - after.times_s[0] if after.times_s else 0.0
    slope = fit(after.times_s, after.own) if lived_s >= wanted_s else None
    return Judged(after, slope, bound, judge(slope, bound))
