"""What happens in a schedule: its trace, what it has violated, and the named points at which faults can strike."""

import asyncio
import random
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from headrace.simulation.loop import START_S, Loop

MAX_VIOLATIONS = 50


@dataclass(frozen=True)
class Violation:
    """Something that must not happen.

    Attributes:
        kind: The invariant that it violates, in a word.
        text: What happened.
    """

    kind: str
    text: str


class Record:
    """The record of one schedule."""

    def __init__(self, loop: Loop, source: random.Random, hiccups: float, *, traced: bool) -> None:
        """Begins a record.

        Args:
            loop: The loop.
            source: Decides about hiccups.
            hiccups: The probability that a process waits for a while at a point.
            traced: Whether to keep the trace.
        """
        self._loop = loop
        self._source = source
        self._hiccups = hiccups
        self.traced = traced
        self.is_open = True
        """False once the schedule is over and is thrown away: what happens then does not count."""
        self.heals = False
        """Whether no more faults happen."""
        self.lines: list[str] = []
        """The trace."""
        self.story: list[str] = []
        """The lines of the trace that tell who did what when, without the log of the gateway and the SDK."""
        self.violations: list[Violation] = []
        self.notes: Counter[str] = Counter()
        """What broke a rule of the protocol, though with no effect in the end."""
        self.counts: Counter[str] = Counter()
        self.points: Counter[str] = Counter()
        self.said: set[str] = set()
        """The failures that their systems and gateways have reported to connectors, which may report them too."""
        self.starts: dict[str, list[float]] = {}
        """When each role was started, on the loop's clock."""
        self.failing: Counter[str] = Counter()
        """How many more calls of each kind fail."""
        self.at_point: dict[tuple[str, int], list[Callable[[], None]]] = {}
        """What happens at the n-th pass of a point."""

    def log(self, text: str) -> None:
        """Adds a line to the trace, and to the story."""
        if self.traced and self.is_open:
            self.detail(text)
            self.story.append(f"{self._loop.now - START_S:8.3f} s  {text}")

    def detail(self, text: str) -> None:
        """Adds a line to the trace only."""
        if self.traced and self.is_open:
            self.lines.append(f"{self._loop.now - START_S:10.6f} {text}")

    def violation(self, kind: str, text: str) -> None:
        """Records a violation."""
        if self.is_open and len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(Violation(kind, text))
            self.log(f"VIOLATION {kind}: {text}")

    def note(self, kind: str, text: str) -> None:
        """Records what broke a rule of the protocol, though perhaps with no effect."""
        if self.is_open:
            self.notes[kind] += 1
            self.log(f"NOTE {kind}: {text}")

    def failed(self, where: str, error: BaseException) -> None:
        """Records an error that nobody expected."""
        if self.is_open:
            self.violation("exception", f"{where}: {type(error).__name__}: {error}")
            if self.traced:
                self.lines += [line.rstrip() for line in traceback.format_exception(error)]

    def started(self, role: str) -> None:
        """Records that a process of a role has started."""
        self.starts.setdefault(role, []).append(self._loop.now)

    def started_lately(self, role: str, within_s: float) -> int:
        """Returns how many processes of a role have started within a time in seconds."""
        return sum(self._loop.now - at <= within_s for at in self.starts.get(role, ()))

    def passed(self, point: str) -> None:
        """Counts a pass of a point, at which faults strike."""
        self.points[point] += 1
        for strike in self.at_point.pop((point, self.points[point]), ()):
            strike()

    async def point(self, point: str) -> None:
        """Passes a point, where a process may be killed or held up."""
        self.passed(point)
        await asyncio.sleep(0)
        if self._hiccups and self._source.random() < self._hiccups:
            await asyncio.sleep(self._source.random() * 0.5)

    def fails(self, what: str) -> bool:
        """Returns whether a call of this kind fails, and counts the failure."""
        if self.failing[what] > 0 and not self.heals:
            self.failing[what] -= 1
            self.said.add(f"{what} failed")
            self.log(f"{what} fails")
            return True
        return False
