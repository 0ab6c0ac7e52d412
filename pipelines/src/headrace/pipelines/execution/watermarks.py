"""Event time of a pipeline: the marks of streams at each `key_by` that they reach from sources, and the watermarks of steps.

A stream delays all timers and windows from the micro-batch in which it is opened, before it has an element: otherwise the results
would depend on the order in which a backlog of several streams is read, and on the size of the micro-batches.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.contract.names import covers as matches
from headrace.pipelines.elements.message import NO_TIME
from headrace.pipelines.execution.kept_times import TakenOver, kept_times
from headrace.pipelines.execution.marks import EVERY_STREAM, Marks
from headrace.pipelines.execution.progress import Place, Progress, never
from headrace.pipelines.execution.quiet import Quiet
from headrace.pipelines.graph.graph import Graph
from headrace.pipelines.time.present import Present
from headrace.pipelines.time.time import END


class EventTime(dict[int, Marks]):
    """The marks of streams, by `key_by`, and the watermarks of the steps behind.

    Args:
        graph: The graph of the pipeline.
        kept: The result of `to_keep` after the last micro-batch.
    """

    def __init__(self, graph: Graph, times: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._graph = graph
        idle_after = self._idle_after if graph.has_idle_streams else never
        self._progress = {
            roots: Progress(roots, self, idle_after, graph.expires, quiet=Quiet(graph.idle_flush)) for roots in graph.meetings
        }
        self._first_streams: set[str] = set()
        self._fresh: set[Place] = set()
        self._reached: dict[int, int] = {}
        self._planned_at: int | None = None
        self.present: Present | None = None
        """The clock, once a micro-batch has ended, for steps that act by it."""
        if times:
            self._take_over(TakenOver(graph, times))
        self._hold()

    def __missing__(self, key_by: int) -> Marks:
        """Creates the marks of a `key_by` that no element has reached yet."""
        marks = self[key_by] = Marks()
        return marks

    def begin(self, arriving: Iterable[Place], opened: Iterable[Place] = (), started: Iterable[str] = ()) -> None:
        """Starts a micro-batch.

        A stream that was idle continues at the watermark, which then has passed it.

        Args:
            arriving: The streams that have elements with event times.
            opened: The streams that are waited for from now on, whether they have elements or not. Known ones are ignored.
            started: The names of sources that no longer wait for further streams, and of tables that were read to their end.
        """
        here = dict.fromkeys(arriving)
        self._fresh = {(key_by, stream) for key_by, stream in here if self._is_new(key_by, stream)}
        new = [(key_by, stream) for key_by, stream in dict.fromkeys(opened) if self[key_by].open(stream)]
        for key_by, stream in here:
            self[key_by].begin(stream)
        self._reached = {}
        for progress in self._progress.values():
            for root in progress.roots:
                self._reached[root] = max(progress.reached, self._reached.get(root, NO_TIME))
            resumed = progress.begin([place for place in here if place[0] in progress.roots], _at(new, progress.roots))
            for key_by, stream in resumed:
                self[key_by].advance(stream, progress.reached)
        self._first_streams.update(started)
        self._hold()

    def is_behind(self, key_by: int, stream: str, first: int) -> bool:
        """Whether a stream begins with an event time that the watermark had passed before this micro-batch.

        Args:
            key_by: The `key_by`.
            stream: The stream.
            first: The event time of its first element in a part of the micro-batch; NO_TIME if none has one.
        """
        if first == NO_TIME or (key_by, stream) not in self._fresh:
            return False
        self._fresh.discard((key_by, stream))
        return first < self._reached.get(key_by, NO_TIME)

    def end_streams(self, ended: Iterable[Place]) -> bool:
        """Ends streams; returns whether event time has ended in all streams."""
        finishes = False
        for key_by, stream in ended:
            finishes |= stream == EVERY_STREAM
            self[key_by].end_stream(stream)
            self._leave(key_by, stream)
        return finishes

    def forget(self, forgotten: Iterable[Place]) -> None:
        """Forgets streams that have ended."""
        for key_by, stream in forgotten:
            self[key_by].forget(stream)
            self._leave(key_by, stream)

    def end(self, clock: int | None = None, planned_at: int | None = None) -> None:
        """Ends a micro-batch, or a part of it.

        Args:
            clock: The time for which the application has run, in microseconds, for streams that are quiet; None if it is unknown.
            planned_at: When the micro-batch was planned, in microseconds since 1970; None if no step acts by the clock, and for a
                part that is not the last one.
        """
        before = self._planned_at
        self.present = None if planned_at is None else Present(before, planned_at if before is None else max(before, planned_at))
        self._planned_at = before if self.present is None else self.present.now
        if clock is not None:
            self._go_on(clock)
        for progress in self._progress.values():
            progress.end()

    def lowest(self) -> dict[frozenset[int], int]:
        """The watermarks of steps, by the first `key_by` on each path to them."""
        return {roots: progress.lowest() for roots, progress in self._progress.items()}

    def watermark(self, roots: frozenset[int], lifetime: int | None) -> int:
        """The watermark of a step.

        Args:
            roots: The first `key_by` on each path to it.
            lifetime: The event time after which the step does not wait for a stream that has stopped; None to wait.
        """
        return self._progress[roots].lowest(lifetime)

    def others_here(self, key_by: int, stream: str) -> int:
        """The watermark of the other streams for the steps right behind a `key_by` that a stream reaches from a source.

        END if there is no other stream.
        """
        return self._progress[self._graph.roots[key_by]].others((key_by, stream))

    def others(self, key_by: int, lowest: Mapping[frozenset[int], int]) -> int:
        """A lower bound of the watermark of the other streams after a further shuffle; END if there is only one stream.

        Args:
            key_by: The number of the step after that shuffle.
            lowest: The watermarks before the micro-batch.
        """
        roots = self._graph.roots[key_by]
        return END if self._progress[roots].is_alone() else lowest.get(roots, NO_TIME)

    def to_keep(self) -> dict[str, Any]:
        """The values that are stored across micro-batches."""
        return kept_times(self._graph, self, self._progress.values(), self._first_streams, self._planned_at)

    def _go_on(self, clock: int) -> None:
        """Moves the marks of quiet streams with the clock."""
        least = {roots: progress.quiet_mark(clock) for roots, progress in self._progress.items()}
        for roots, time in least.items():
            for root in roots & self.keys():
                for stream in self[root].maxima:
                    self[root].advance(stream, time)

    def _take_over(self, times: TakenOver) -> None:
        self._first_streams, self._planned_at = times.begun, times.planned_at
        for key_by, (maxima, ended) in times.marks.items():
            self[key_by] = Marks(maxima, ended)
        for progress in self._progress.values():
            # A stream that could not be idle until now counts as active now.
            furthest, heard = progress.furthest(), times.heard(progress.roots)
            known = ((root, stream) for root in progress.roots if root in self for stream in self[root].maxima)
            progress.heard = {place: heard.get(place, furthest) for place in known if progress.notes(place)}
            progress.quiet.since, progress.quiet.furthest = times.quiet(progress.roots)
            reached = times.reached(progress.roots)
            progress.reached = progress.lowest() if reached is None else reached

    def _is_new(self, key_by: int, stream: str) -> bool:
        marks = self.get(key_by)
        return marks is None or (marks.base(stream) == NO_TIME and stream not in marks.ended)

    def _leave(self, key_by: int, stream: str) -> None:
        for progress in self._progress.values():
            progress.leave((key_by, stream))

    def _hold(self) -> None:
        """Has event time wait behind sources that await more streams than are known, or are tables that are not read yet."""
        awaiting = self._graph.awaiting
        for name in awaiting.keys() - self._first_streams:
            source = awaiting[name]
            least = None if source.bootstrap else self._graph.least_streams(source)
            if least is not None and self._count_of(source.streams) >= least:
                self._first_streams.add(name)
        for progress in self._progress.values():
            progress.is_held = any(
                self._graph.passes(awaiting[name], progress.roots) for name in awaiting.keys() - self._first_streams
            )

    def _count_of(self, patterns: Iterable[str]) -> int:
        """The number of streams that match patterns, also of streams that have ended."""
        known = {stream for marks in self.values() for stream in (*marks.maxima, *marks.ended) if stream != EVERY_STREAM}
        return sum(any(matches(pattern, stream) for pattern in patterns) for stream in known)

    def _idle_after(self, place: Place) -> int | None:
        return self._graph.idle_after(*place)


def _at(places: Iterable[Place], roots: frozenset[int]) -> list[Place]:
    return [place for place in places if place[0] in roots]
