"""What was measured, series by series, and what each says."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.laboratory.soak.memory import Memory
from headrace.laboratory.soak.slope import Slope, Verdict, fit, judge

MOMENTARY = 5
"""What was measured less often, a command that Spark runs, is no process that could grow."""
TOGETHER = "all processes"
HEAP = "driver's JVM: heap alive"


@dataclass
class Series:
    """The memory of one process, or of something like it, over time.

    Attributes:
        name: What it is.
        pid: Its id; None for what is no single process.
        times_s: When it was measured, in seconds since the run began.
        own: What counts, in MB.
        resident: What lies in memory, in MB.
    """

    name: str
    pid: int | None
    times_s: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    resident: list[float] = field(default_factory=list)

    def note(self, at_s: float, memory: Memory) -> None:
        """Notes a measurement."""
        self.times_s.append(at_s)
        self.own.append(memory.own)
        self.resident.append(memory.resident)

    def since(self, begin_s: float) -> "Series":
        """What was measured from a moment on."""
        at = next((index for index, time_s in enumerate(self.times_s) if time_s >= begin_s), len(self.times_s))
        return Series(self.name, self.pid, self.times_s[at:], self.own[at:], self.resident[at:])


@dataclass(frozen=True)
class Judged:
    """What became of a series after the warm-up.

    Attributes:
        series: What was measured after it.
        slope: Of the line through what counts, in MB an hour; None where there is too little.
        bound: What is allowed, in MB an hour.
        verdict: What the slope says.
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
        """Notes what all processes take at a moment."""
        for pid, (name, memory) in memories.items():
            series = self.processes.setdefault(pid, Series(name, pid))
            # A process that has just been forked still looks like another one.
            series.name = name
            series.note(at_s, memory)
        total = [memory for _, memory in memories.values()]
        self.together.note(at_s, Memory(sum(m.resident for m in total), sum(m.own for m in total)))

    def note_heap(self, measured: Iterable[tuple[float, float]]) -> None:
        """Notes how much of the heap was alive when, all over again."""
        self.heap = Series(HEAP, None)
        for at_s, alive in measured:
            self.heap.note(at_s, Memory(alive, alive))

    def judged(self, warm_up_s: float, bound: float) -> list[Judged]:
        """What each series says after the warm-up; processes that ended or came meanwhile are too short.

        All processes together may grow as much as two of them: many that grow a little, or whose number grows, are too much.
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
