"""What is stored of event time across micro-batches: as plain data, by the names of steps."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from headrace.pipelines.elements.message import NO_TIME
from headrace.pipelines.execution.marks import EVERY_STREAM, Marks, raise_to
from headrace.pipelines.execution.progress import Place, Progress
from headrace.pipelines.graph.graph import Graph

_MAXIMA = "watermarks"
_HEARD = "heard"
_ENDED = "ended"
_TIMES = (_MAXIMA, _HEARD, _ENDED)
"""The names of times by `key_by` and stream. Where several `key_by`s meet, what was heard is stored for each of them."""
_REACHED = "reached"
_QUIET = "quiet"
_BEGUN = "begun"
_PLANNED_AT = "planned at"
_BEHIND = "behind"
"""The names of the watermarks, the clock when streams were last heard of with the largest mark then, the sources that no longer
await streams, when the last micro-batch was planned, and the steps with states after each `key_by`."""


def kept_times(
    graph: Graph,
    marks: Mapping[int, Marks],
    progress: Iterable[Progress],
    started: Collection[str],
    planned_at: int | None,
) -> dict[str, Any]:
    """The values that are stored across micro-batches."""
    names = {key_by: graph.steps[key_by].name for key_by in marks}
    heard: dict[str, dict[str, int]] = {}
    reached: dict[str, int] = {}
    quiet: dict[str, tuple[int, int]] = {}
    for each in progress:
        meeting = [graph.steps[root].name for root in each.roots]
        reached[_joined(meeting)] = each.reached
        if each.quiet.since is not None:
            quiet[_joined(meeting)] = each.quiet.since, each.quiet.furthest
        for (key_by, stream), time in each.heard.items():
            heard.setdefault(_heard_at(meeting, graph.steps[key_by].name), {})[stream] = time
    ended = {names[key_by]: there.ended for key_by, there in marks.items() if there.ended}
    return {
        _MAXIMA: {names[key_by]: there.maxima for key_by, there in marks.items()},
        _BEHIND: {names[key_by]: sorted(graph.behind(key_by)) for key_by in marks},
        _REACHED: reached,
        **({_QUIET: quiet} if quiet else {}),
        **({_HEARD: heard} if heard else {}),
        **({_ENDED: ended} if ended else {}),
        **({_BEGUN: sorted(started)} if started else {}),
        **({} if planned_at is None else {_PLANNED_AT: planned_at}),
    }


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Combines what two parts of a pipeline have stored."""
    found: dict[str, dict[str, Any]] = {_BEHIND: {**one.get(_BEHIND, {}), **other.get(_BEHIND, {})}, _REACHED: {}}
    for part in (one, other):
        raise_to(found[_REACHED], part.get(_REACHED, {}))
        for name in _TIMES:
            for key_by, streams in part.get(name, {}).items():
                raise_to(found.setdefault(name, {}).setdefault(key_by, {}), streams)
    begun = {*one.get(_BEGUN, ()), *other.get(_BEGUN, ())}
    quiet = {**one.get(_QUIET, {}), **other.get(_QUIET, {})}
    planned_at = max((part[_PLANNED_AT] for part in (one, other) if _PLANNED_AT in part), default=None)
    return {
        **found,
        **({_QUIET: quiet} if quiet else {}),
        **({_BEGUN: sorted(begun)} if begun else {}),
        **({} if planned_at is None else {_PLANNED_AT: planned_at}),
    }


class TakenOver:
    """The stored values, for a pipeline that may have changed.

    A stored `key_by` is identified by the steps with states after it, since their names are stable.

    Attributes:
        marks: The marks of the streams that reach each `key_by`, and of streams that have ended.
        begun: The sources that no longer await streams.
        planned_at: When the last micro-batch was planned; None if it is not known.
    """

    def __init__(self, graph: Graph, times: Mapping[str, Any]) -> None:
        self._graph = graph
        self._content = times
        self._names = {number: names for number, names in _sharing(graph, times).items() if names}
        self.begun = set(times.get(_BEGUN, ()))
        self.planned_at: int | None = times.get(_PLANNED_AT)
        self.marks = {key_by: (self._times(_MAXIMA, key_by), self._times(_ENDED, key_by)) for key_by in self._names}

    def heard(self, roots: frozenset[int]) -> dict[Place, int]:
        """When each stream was last heard of where some `key_by`s meet; empty if they did not meet there before."""
        there, meeting = self._content.get(_HEARD, {}), self._meeting(roots)
        found: dict[Place, int] = {}
        for root in roots:
            for name in self._names.get(root, ()):
                for stream, time in there.get(_heard_at(meeting, name), {}).items():
                    found[root, stream] = max(time, found.get((root, stream), time))
        return found

    def reached(self, roots: frozenset[int]) -> int | None:
        """The watermark where some `key_by`s meet; None if it is not known."""
        reached: int | None = self._content.get(_REACHED, {}).get(_joined(self._meeting(roots)))
        return reached

    def quiet(self, roots: frozenset[int]) -> tuple[int | None, int]:
        """The clock when streams were last heard of where some `key_by`s meet, and the largest mark then; None if not known."""
        since, furthest = self._content.get(_QUIET, {}).get(_joined(self._meeting(roots)), (None, NO_TIME))
        return since, furthest

    def _meeting(self, roots: frozenset[int]) -> list[str]:
        return [name for root in roots for name in self._names.get(root, ())]

    def _times(self, what: str, key_by: int) -> dict[str, int]:
        found: dict[str, int] = {}
        for name in self._names[key_by]:
            there = self._content.get(what, {}).get(name, {})
            reaching = (stream for stream in there if stream == EVERY_STREAM or self._graph.reaches(key_by, stream))
            raise_to(found, {stream: there[stream] for stream in reaching})
        return found


def _sharing(graph: Graph, times: Mapping[str, Any]) -> dict[int, list[str]]:
    """The names under which the times of each `key_by` were stored."""
    behind = times.get(_BEHIND, {})
    known = {key_by: set(behind.get(key_by, ())) for key_by in times.get(_MAXIMA, {})}
    now = {number: graph.behind(number) for number in graph.first_keys}
    sharing = {number: [key_by for key_by, steps in known.items() if steps & now[number]] for number in now}
    for number, names in sharing.items():
        # Several may have all their steps in common, with a stream at each of them.
        own = graph.steps[number].name
        sharing[number] = [own] if own in names else names
    taken = {key_by for some in sharing.values() for key_by in some}
    for number, names in sharing.items():
        if not names:
            # The steps with states after it are all gone.
            names += {graph.steps[number].name} & (known.keys() - taken)
    return sharing


def _joined(names: Iterable[str]) -> str:
    return "\n".join(sorted(names))


def _heard_at(meeting: Collection[str], name: str) -> str:
    return name if len(meeting) == 1 else f"{_joined(meeting)}\t{name}"
