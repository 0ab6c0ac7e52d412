"""The watermark of each stream at each `key_by` that its elements reach.

A stream delays all timers and windows from the micro-batch in which it is opened, before it has an element: otherwise the results
would depend on the order in which a backlog of several streams is read, and on the size of the micro-batches.

A stream without messages delays all timers and windows, unless its source has `idle_after`. This is a duration in event time,
measured by the progress of the other streams. A micro-batch that is repeated therefore finds the same streams idle, and a pause
of the whole system makes no stream idle.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from headrace.pipelines.elements._origin import NO_TIME
from headrace.pipelines.graph._graph import Graph
from headrace.pipelines.time._time import END

_MAXIMA = "watermarks"
_HEARD = "heard"
_ENDED = "ended"
_TIMES = (_MAXIMA, _HEARD, _ENDED)
_BEHIND = "behind"
"""The names of what is stored across micro-batches: times by `key_by`, and the steps with states after it."""
EVERY_STREAM = ""
"""Replaces a stream's name for the end of event time in all streams, and for forgotten streams, which count as one."""


def _never(stream: str) -> int | None:
    return None


@dataclass
class Watermarks:
    """The watermarks at a `key_by`.

    Attributes:
        maxima: The mark of each stream: its largest event time; NO_TIME before the first one.
        heard: For each stream that can be idle, the largest mark of all streams at the end of the last micro-batch with an
            element of the stream; END during that micro-batch.
        ended: The mark of each stream that has ended. It delays nothing, and the stream resumes there if it continues.
        idle_after: Returns the event time without an element after which a stream is idle, in microseconds; None for never.
    """

    maxima: dict[str, int] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    idle_after: Callable[[str], int | None] = _never
    _silent: frozenset[str] = frozenset()

    def begin(self, streams: Collection[str], opened: Collection[str] = ()) -> None:
        """Starts a micro-batch.

        A stream that was idle resumes at the watermark of the others.

        Args:
            streams: The streams that have elements with event times.
            opened: Streams that are waited for from now on, whether they have elements or not. Known ones are ignored.
        """
        idle, reached = self._idle(), self.lowest()
        for stream in streams:
            if stream in self.ended:
                self.maxima[stream] = self.ended.pop(stream)
            if stream in idle:
                self.advance(stream, reached)
            self.maxima.setdefault(stream, NO_TIME)
            if self.idle_after(stream) is not None:
                self.heard[stream] = END
        for stream in opened:
            if stream not in self.ended and stream not in self.maxima:
                self.maxima[stream] = NO_TIME
                if self.idle_after(stream) is not None:
                    self.heard[stream] = END
        self._silent = idle.difference(streams)

    def advance(self, stream: str, time: int) -> None:
        """Advances a stream to the largest time of its elements; NO_TIME has no effect."""
        if time > self.base(stream):
            self.maxima[stream] = time

    def end_stream(self, stream: str) -> None:
        """Ends a stream after its elements of this micro-batch."""
        if stream in self.maxima:
            self.ended[stream] = self.maxima.pop(stream)
            self.heard.pop(stream, None)

    def forget(self, stream: str) -> None:
        """Forgets a stream that has ended. Only the largest mark of all forgotten streams is kept."""
        self.end_stream(stream)
        if stream in self.ended:
            _raise(self.ended, {EVERY_STREAM: self.ended.pop(stream)})

    def end(self) -> None:
        """Ends a micro-batch."""
        furthest = self._furthest()
        self.heard.update({stream: furthest for stream, time in self.heard.items() if time == END})

    def base(self, stream: str) -> int:
        """The mark of a stream."""
        return self.maxima.get(stream, NO_TIME)

    def lowest(self) -> int:
        """The watermark of all streams: the smallest mark of those that are not idle.

        If all have ended, it is the largest mark.
        """
        idle = self._idle()
        return min((time for stream, time in self.maxima.items() if stream not in idle), default=self._furthest())

    def others(self, stream: str) -> int:
        """The watermark of the other streams, without those that were idle before the micro-batch; END if there is no other."""
        silent = self._silent
        return min((time for name, time in self.maxima.items() if name != stream and name not in silent), default=END)

    def _furthest(self) -> int:
        return max(max(self.maxima.values(), default=NO_TIME), max(self.ended.values(), default=NO_TIME))

    def _idle(self) -> frozenset[str]:
        """The streams that are idle. The one with the largest mark is not, so at least one is not idle."""
        if not self.heard:
            return frozenset()
        furthest = self._furthest()
        spans = ((stream, time, self.idle_after(stream)) for stream, time in self.heard.items())
        return frozenset(stream for stream, time, span in spans if span is not None and furthest - time >= span)


class EventTime(dict[int, Watermarks]):
    """The watermarks of a pipeline, by `key_by`.

    Args:
        graph: The graph of the pipeline.
        kept: The result of `to_keep` after the last micro-batch.
    """

    def __init__(self, graph: Graph, kept: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._graph = graph
        for key_by, times in _taken_over(graph, kept or {}).items():
            watermarks = self[key_by]
            watermarks.maxima, watermarks.ended = times[_MAXIMA], times[_ENDED]
            maxima = watermarks.maxima
            heard = times[_HEARD]
            if not graph.has_idle_streams:
                continue
            # A stream that could not be idle until now counts as active now.
            furthest = max(maxima.values(), default=NO_TIME)
            can_be_idle = (stream for stream in maxima if watermarks.idle_after(stream) is not None)
            watermarks.heard = {stream: heard.get(stream, furthest) for stream in can_be_idle}

    def __missing__(self, key_by: int) -> Watermarks:
        """Creates the watermarks of a `key_by` that no element has reached yet."""
        graph = self._graph
        idle_after = partial(graph.idle_after, key_by) if graph.has_idle_streams else _never
        watermarks = self[key_by] = Watermarks(idle_after=idle_after)
        return watermarks

    def begin(self, arriving: Iterable[tuple[int, str]], opened: Iterable[tuple[int, str]] = ()) -> None:
        """Starts a micro-batch.

        Args:
            arriving: The streams that have elements with event times, by `key_by`.
            opened: The streams that are waited for from now on, whether they have elements or not, by `key_by`.
        """
        streams, new = _by_key_by(arriving), _by_key_by(opened)
        for key_by in self.keys() | streams.keys() | new.keys():
            self[key_by].begin(streams[key_by], new[key_by])

    def end_streams(self, ended: Iterable[tuple[int, str]]) -> bool:
        """Ends streams, by `key_by`; returns whether event time has ended in all streams."""
        finishes = False
        for key_by, stream in ended:
            finishes |= stream == EVERY_STREAM
            self[key_by].end_stream(stream)
        return finishes

    def forget(self, forgotten: Iterable[tuple[int, str]]) -> None:
        """Forgets streams that have ended, by `key_by`."""
        for key_by, stream in forgotten:
            self[key_by].forget(stream)

    def end(self) -> None:
        """Ends a micro-batch."""
        for watermarks in self.values():
            watermarks.end()

    def lowest(self) -> dict[int, int]:
        """The watermark of all streams, by `key_by`."""
        return {key_by: watermarks.lowest() for key_by, watermarks in self.items()}

    def others(self, key_by: int, known: Mapping[int, int]) -> int:
        """A lower bound of the watermark of the other streams after a further shuffle; END if there is only one stream.

        Args:
            key_by: The number of the step after that shuffle.
            known: The watermarks of all streams before the micro-batch.
        """
        roots = self._graph.roots[key_by]
        if sum(len(self[root].maxima) for root in roots) < 2:
            return END
        return min(known.get(root, NO_TIME) for root in roots)

    def to_keep(self) -> dict[str, Any]:
        """What is stored across micro-batches."""
        names = {key_by: self._graph.steps[key_by].name for key_by in self}
        heard = {names[key_by]: watermarks.heard for key_by, watermarks in self.items() if watermarks.heard}
        ended = {names[key_by]: watermarks.ended for key_by, watermarks in self.items() if watermarks.ended}
        return {
            _MAXIMA: {names[key_by]: watermarks.maxima for key_by, watermarks in self.items()},
            _BEHIND: {names[key_by]: sorted(self._graph.behind(key_by)) for key_by in self},
            **({_HEARD: heard} if heard else {}),
            **({_ENDED: ended} if ended else {}),
        }


def merged(kept: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Combines what two parts of a pipeline have stored."""
    found: dict[str, dict[str, Any]] = {_BEHIND: {**kept.get(_BEHIND, {}), **other.get(_BEHIND, {})}}
    for name in _TIMES:
        for part in (kept, other):
            for key_by, streams in part.get(name, {}).items():
                _raise(found.setdefault(name, {}).setdefault(key_by, {}), streams)
    return found


def _taken_over(graph: Graph, kept: Mapping[str, Any]) -> dict[int, dict[str, dict[str, int]]]:
    """The stored times for each `key_by` of a pipeline, which may have changed, of the streams that reach it.

    A stored `key_by` is identified by the steps with states after it, since their names are stable.
    """
    behind = kept.get(_BEHIND, {})
    known = {key_by: set(behind.get(key_by, ())) for key_by in kept.get(_MAXIMA, {})}
    now = {number: graph.behind(number) for number in graph.first_keys}
    sharing = {number: [key_by for key_by, steps in known.items() if steps & now[number]] for number in now}
    taken = {key_by for some in sharing.values() for key_by in some}
    found: dict[int, dict[str, dict[str, int]]] = {}
    for number, names in sharing.items():
        if not names:
            # Older checkpoints identify a `key_by` by its number.
            names = [name for name in (graph.steps[number].name, number) if name in known.keys() - taken][:1]
        if not names:
            continue
        found[number] = {what: {} for what in _TIMES}
        for what, times in found[number].items():
            for name in names:
                there = kept.get(what, {}).get(name, {})
                reaching = (stream for stream in there if stream == EVERY_STREAM or graph.reaches(number, stream))
                _raise(times, {stream: there[stream] for stream in reaching})
    return found


def _by_key_by(streams: Iterable[tuple[int, str]]) -> defaultdict[int, dict[str, None]]:
    found = defaultdict[int, dict[str, None]](dict)
    for key_by, stream in streams:
        found[key_by][stream] = None
    return found


def _raise(times: dict[str, int], others: Mapping[str, int]) -> None:
    """Updates each time to the maximum of both."""
    times.update({stream: max(time, times.get(stream, NO_TIME)) for stream, time in others.items()})
