"""How far event time has come behind each `key_by`, in each stream whose elements reach it.

A stream that has gone quiet holds up all that waits for event time, unless its source says after how long it is idle. That
time is event time, too: it is counted by how far the other streams have gone on since. So a micro-batch that is done again
finds the same streams idle, and a machine that stood still finds none.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from headrace.pipelines._graph import Graph
from headrace.pipelines._origin import NO_TIME
from headrace.pipelines._time import END

_MAXIMA = "watermarks"
_HEARD = "heard"
_ENDED = "ended"
_TIMES = (_MAXIMA, _HEARD, _ENDED)
_BEHIND = "behind"
"""What is kept across micro-batches, by these names: times by the name of the `key_by`, and the steps with states behind it."""
EVERY_STREAM = ""
"""In the place of a stream's name where event time comes to its end in all, and where what is forgotten counts as one."""


def _never(stream: str) -> int | None:
    return None


@dataclass
class Watermarks:
    """How far event time has come behind a `key_by`.

    Attributes:
        maxima: The mark that each stream has come to.
        heard: How far event time had come in all streams when one was last heard, at the end of that micro-batch; END during
            it. Only of streams that can be idle.
        ended: The mark of each stream that has ended. It holds nothing up, and goes on from there should it come back.
        idle_after: After how much event time without an element a stream is idle; None for never.
    """

    maxima: dict[str, int] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    idle_after: Callable[[str], int | None] = _never
    _silent: frozenset[str] = frozenset()

    def begin(self, streams: Collection[str]) -> None:
        """Takes note of the streams that have elements with a time in a micro-batch, before the first of these.

        One that was idle goes on from where event time has come to without it.
        """
        idle, reached = self._idle(), self.lowest()
        for stream in streams:
            if stream in self.ended:
                self.maxima[stream] = self.ended.pop(stream)
            if stream in idle:
                self.advance(stream, reached)
            if self.idle_after(stream) is not None:
                self.heard[stream] = END
        self._silent = idle.difference(streams)

    def advance(self, stream: str, time: int) -> None:
        """Takes note of elements of a stream, the largest of whose times is this; NO_TIME says nothing."""
        if time > self.base(stream):
            self.maxima[stream] = time

    def leave(self, stream: str) -> None:
        """Takes note that a stream has ended, with the elements that came before."""
        if stream in self.maxima:
            self.ended[stream] = self.maxima.pop(stream)
            self.heard.pop(stream, None)

    def forget(self, stream: str) -> None:
        """Lets go of a stream that has ended. Of all that are forgotten, the mark of the one that came farthest is kept."""
        self.leave(stream)
        if stream in self.ended:
            _raise(self.ended, {EVERY_STREAM: self.ended.pop(stream)})

    def end(self) -> None:
        """Takes note of the end of a micro-batch."""
        furthest = self._furthest()
        self.heard.update({stream: furthest for stream, time in self.heard.items() if time == END})

    def base(self, stream: str) -> int:
        """The mark that a stream has come to."""
        return self.maxima.get(stream, NO_TIME)

    def lowest(self) -> int:
        """The watermark of all streams together: the mark of the one that lies farthest behind and is not idle.

        Where all have ended, it is that of the one that came farthest.
        """
        idle = self._idle()
        return min((time for stream, time in self.maxima.items() if stream not in idle), default=self._furthest())

    def others(self, stream: str) -> int:
        """The same without one stream, and with those idle that were so before the micro-batch; END where there is no other."""
        silent = self._silent
        return min((time for name, time in self.maxima.items() if name != stream and name not in silent), default=END)

    def _furthest(self) -> int:
        return max(max(self.maxima.values(), default=NO_TIME), max(self.ended.values(), default=NO_TIME))

    def _idle(self) -> frozenset[str]:
        """The streams that are idle. That which is ahead of all is not, so there is another one."""
        if not self.heard:
            return frozenset()
        furthest = self._furthest()
        spans = ((stream, time, self.idle_after(stream)) for stream, time in self.heard.items())
        return frozenset(stream for stream, time, span in spans if span is not None and furthest - time >= span)


class EventTime(dict[int, Watermarks]):
    """How far event time has come in a pipeline, by `key_by`.

    Args:
        graph: The pipeline's.
        kept: What `to_keep` gave after the micro-batch before.
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
            # A stream that could not be idle until now counts as heard just now.
            furthest = max(maxima.values(), default=NO_TIME)
            can_be_idle = (stream for stream in maxima if watermarks.idle_after(stream) is not None)
            watermarks.heard = {stream: heard.get(stream, furthest) for stream in can_be_idle}

    def __missing__(self, key_by: int) -> Watermarks:
        """Those of a `key_by` that no element has reached yet."""
        graph = self._graph
        idle_after = partial(graph.idle_after, key_by) if graph.has_idle_streams else _never
        watermarks = self[key_by] = Watermarks(idle_after=idle_after)
        return watermarks

    def begin(self, arriving: Iterable[tuple[int, str]]) -> None:
        """Takes note of which streams have elements with a time in a micro-batch, by `key_by`, before the first of these."""
        streams: dict[int, dict[str, None]] = {key_by: {} for key_by in self}
        for key_by, stream in arriving:
            streams.setdefault(key_by, {})[stream] = None
        for key_by, some in streams.items():
            self[key_by].begin(some)

    def leave(self, ended: Iterable[tuple[int, str]]) -> bool:
        """Takes note of the streams that have ended, by `key_by`; returns whether event time has come to its end in all."""
        finishes = False
        for key_by, stream in ended:
            finishes |= stream == EVERY_STREAM
            self[key_by].leave(stream)
        return finishes

    def forget(self, forgotten: Iterable[tuple[int, str]]) -> None:
        """Lets go of streams that have ended before, by `key_by`."""
        for key_by, stream in forgotten:
            self[key_by].forget(stream)

    def end(self) -> None:
        """Takes note of the end of a micro-batch."""
        for watermarks in self.values():
            watermarks.end()

    def lowest(self) -> dict[int, int]:
        """The watermark of all streams together, by `key_by`."""
        return {key_by: watermarks.lowest() for key_by, watermarks in self.items()}

    def others(self, key_by: int, known: Mapping[int, int]) -> int:
        """How far event time has surely come in the other streams behind a further shuffle; END where there is one stream.

        Args:
            key_by: The number of the step behind that shuffle.
            known: The watermarks of all streams together, before the micro-batch.
        """
        roots = self._graph.roots[key_by]
        if sum(len(self[root].maxima) for root in roots) < 2:
            return END
        return min(known.get(root, NO_TIME) for root in roots)

    def to_keep(self) -> dict[str, Any]:
        """What is to be kept across micro-batches."""
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
    """What two parts of a pipeline keep, for one that takes over from both."""
    found: dict[str, dict[str, Any]] = {_BEHIND: {**kept.get(_BEHIND, {}), **other.get(_BEHIND, {})}}
    for name in _TIMES:
        for part in (kept, other):
            for key_by, streams in part.get(name, {}).items():
                _raise(found.setdefault(name, {}).setdefault(key_by, {}), streams)
    return found


def _taken_over(graph: Graph, kept: Mapping[str, Any]) -> dict[int, dict[str, dict[str, int]]]:
    """What is kept for each `key_by` of a pipeline, which may have changed: the times of the streams that reach it.

    The steps with states tell which `key_by` is which, since their names last.
    """
    behind = kept.get(_BEHIND, {})
    known = {key_by: set(behind.get(key_by, ())) for key_by in kept.get(_MAXIMA, {})}
    now = {number: graph.behind(number) for number in graph.first_keys}
    sharing = {number: [key_by for key_by, steps in known.items() if steps & now[number]] for number in now}
    taken = {key_by for some in sharing.values() for key_by in some}
    found: dict[int, dict[str, dict[str, int]]] = {}
    for number, names in sharing.items():
        if not names:
            # Older checkpoints know a `key_by` by its number.
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


def _raise(times: dict[str, int], others: Mapping[str, int]) -> None:
    """Makes of each time the larger one."""
    times.update({stream: max(time, times.get(stream, NO_TIME)) for stream, time in others.items()})
