"""How far event time has come for steps: the watermark of all streams that reach them, by whatever way.

A stream without messages delays all timers and windows, unless its source has `idle_after`. This is a duration in event time,
measured by the progress of the other streams that reach the same steps. A micro-batch that is repeated therefore finds the same
streams idle, and a pause of the whole system makes no stream idle.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from headrace.pipelines.elements.message import NO_TIME
from headrace.pipelines.execution.marks import Marks
from headrace.pipelines.execution.quiet import Quiet
from headrace.pipelines.time.time import END

Place = tuple[int, str]
"""A stream at a `key_by`."""


def never(place: Place) -> int | None:
    """The time after which a stream is idle where no source has `idle_after`."""
    return None


@dataclass
class Progress:
    """Event time of the steps that elements reach through the same `key_by`s.

    Attributes:
        roots: These `key_by`s.
        marks: The marks of streams at every `key_by`.
        idle_after: Returns the event time without an element after which a stream is idle, in microseconds; None for never.
        expires: Whether states expire, for which a stream that has stopped is not waited for without end.
        heard: For each stream that can be idle, or every one if states expire, the largest mark of all streams at the end of the
            last micro-batch with an element of the stream; END during that micro-batch.
        reached: The highest watermark so far.
        is_held: Whether event time waits for further streams to be opened.
        quiet: Since when no stream has had an element.
    """

    roots: frozenset[int]
    marks: Mapping[int, Marks]
    idle_after: Callable[[Place], int | None] = never
    expires: bool = False
    heard: dict[Place, int] = field(default_factory=dict)
    reached: int = NO_TIME
    is_held: bool = False
    quiet: Quiet = field(default_factory=Quiet)
    _silent: frozenset[Place] = frozenset()

    def begin(self, arriving: Collection[Place], opened: Collection[Place]) -> frozenset[Place]:
        """Starts a micro-batch; returns the streams that have been idle and now continue.

        Args:
            arriving: The streams that have elements with event times.
            opened: The streams that are waited for from now on.
        """
        idle = self.idle()
        if arriving or opened:
            self.quiet.hear()
        self.heard.update((place, END) for place in (*arriving, *opened) if self.notes(place))
        self._silent = idle.difference(arriving)
        return idle.intersection(arriving)

    def end(self) -> None:
        """Ends a micro-batch."""
        furthest = self.furthest()
        self.heard.update({place: furthest for place, time in self.heard.items() if time == END})
        self.reached = max(self.reached, self.lowest())

    def quiet_mark(self, clock: int) -> int:
        """The mark that its streams have at least by the clock; NO_TIME if they are not quiet for long enough."""
        if self.is_held:
            self.quiet.hear()
        return self.quiet.mark(clock, self.furthest())

    def notes(self, place: Place) -> bool:
        """Whether it matters when a stream was last heard of."""
        return self.expires or self.idle_after(place) is not None

    def leave(self, place: Place) -> None:
        """Ends a stream, which is waited for no more."""
        self.heard.pop(place, None)

    def lowest(self, lifetime: int | None = None) -> int:
        """The watermark of all streams: the smallest mark of streams that are not idle.

        If all have ended, it is the largest mark.

        Args:
            lifetime: The event time without an element after which any stream counts as idle; None for streams with `idle_after`.
        """
        if self.is_held:
            return NO_TIME
        idle = self.idle() if lifetime is None else self.idle() | self._stopped(lifetime)
        return min((time for place, time in self._active() if place not in idle), default=self.furthest())

    def others(self, place: Place) -> int:
        """The watermark of the other streams, without streams that were idle before the micro-batch; END if there is no other."""
        if self.is_held:
            return NO_TIME
        silent = self._silent
        return min((time for other, time in self._active() if other != place and other not in silent), default=END)

    def is_alone(self) -> bool:
        """Whether a single stream, at a single `key_by`, decides event time."""
        return not self.is_held and sum(1 for _ in self._active()) < 2

    def furthest(self) -> int:
        """The largest mark of all streams, also of streams that have ended."""
        return max((marks.furthest() for root in self.roots if (marks := self.marks.get(root)) is not None), default=NO_TIME)

    def idle(self) -> frozenset[Place]:
        """The streams that are idle. The one with the largest mark is not, so at least one is not idle."""
        if not self.heard:
            return frozenset()
        furthest = self.furthest()
        spans = ((place, time, self.idle_after(place)) for place, time in self.heard.items())
        return frozenset(place for place, time, span in spans if span is not None and furthest - time >= span)

    def _stopped(self, lifetime: int) -> frozenset[Place]:
        """The streams without an element for some event time."""
        furthest = self.furthest()
        return frozenset(place for place, time in self.heard.items() if furthest - time >= lifetime)

    def _active(self) -> Iterator[tuple[Place, int]]:
        for root in self.roots:
            marks = self.marks.get(root)
            if marks is not None:
                yield from (((root, stream), time) for stream, time in marks.maxima.items())
