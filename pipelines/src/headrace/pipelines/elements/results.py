"""The results of steps with event time: results of elements, and results of timers and windows that have fired."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from headrace.pipelines.elements.elements import Elements, Key, Lineage, told_apart
from headrace.pipelines.elements.headers import NO_HEADERS, Headers, select
from headrace.pipelines.elements.message import NO_TIME, Origin

_FIRED = -1


class Fired(NamedTuple):
    """A result of a timer or window that has fired.

    Attributes:
        key: Its key.
        value: The result.
        time: Its event time.
        mark: The watermark at which it was due.
        stream: The stream of the last element of its key before.
        sequence: That element's sequence.
        lineage: Tells it apart from all others of that element.
    """

    key: Key
    value: Any
    time: int
    mark: int
    stream: str
    sequence: int
    lineage: Lineage


@dataclass
class Results:
    """The results of a step for elements, in order."""

    elements: Elements
    values: list[Any] = field(default_factory=list)
    _at: list[int] = field(default_factory=list)
    _keys: list[Key] = field(default_factory=list)
    _times: list[int] = field(default_factory=list)
    _marks: list[int] = field(default_factory=list)
    _earlier: list[int] = field(default_factory=list)
    _indices: list[int] = field(default_factory=list)
    """The index of the element that each is a result of; `_FIRED` if a timer or window has fired. Empty if nothing needs it."""
    _fired: list[Lineage] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Finds the headers of the elements."""
        self._headers = self.elements.own_headers()
        self._needs_indices = self._headers is not None or self.elements.lineages is not None

    def add(self, index: int, key: Key, value: Any, time: int, mark: int) -> None:
        """Adds a result of the element at an index."""
        self._append(self.elements.place(index), key, value, time, mark)
        if self._needs_indices:
            self._indices.append(index)

    def add_fired(self, index: int, fired: Iterable[Fired]) -> None:
        """Adds results that fired before or after the element at an index."""
        for result in fired:
            place = self.elements.place(index)
            if result.stream == self.elements.origin.stream:
                place = len(self.elements.origin) + len(self._earlier)
                self._earlier.append(result.sequence)
            self._append(place, result.key, result.value, result.time, result.mark)
            if self._needs_indices:
                self._indices.append(_FIRED)
                self._fired.append(result.lineage)

    def collected(self) -> Elements:
        """All results. Results of elements have the headers of these, and results that fired have none."""
        origin = _with_earlier(self.elements.origin, self._earlier)
        times, marks = _times(self._times), _times(self._marks)
        headers, lineages = self._collected_headers(), self._collected_lineages()
        return Elements(self.values, origin, self._at, self._keys, times, marks, headers=headers, lineages=lineages)

    def _collected_headers(self) -> Sequence[Headers] | None:
        headers = self._headers
        if headers is None:
            return None
        if _FIRED not in self._indices:
            return select(headers, self._indices)
        return [NO_HEADERS if index == _FIRED else headers[index] for index in self._indices]

    def _collected_lineages(self) -> Sequence[Lineage] | None:
        if self.elements.lineages is None:
            return None
        of_elements = iter(told_apart(self.elements.lineages, [index for index in self._indices if index != _FIRED]))
        fired = iter(self._fired)
        return [next(fired if index == _FIRED else of_elements) for index in self._indices]

    def _append(self, place: int, key: Key, value: Any, time: int, mark: int) -> None:
        self.values.append(value)
        self._at.append(place)
        self._keys.append(key)
        self._times.append(time)
        self._marks.append(mark)


def fired_elements(fired: Iterable[Fired]) -> list[Elements]:
    """The results that fired at the end of a micro-batch: the results of each stream in the order in which they were due."""
    ordered = sorted(fired, key=attrgetter("stream", "mark", "sequence"))
    return [_of_a_stream(stream, list(some)) for stream, some in groupby(ordered, key=attrgetter("stream"))]


def fired_in_turn(fired: Iterable[Fired]) -> list[Elements]:
    """The results that fired at the end of a micro-batch: the results of each key in the order in which they were due.

    Elements are of one stream, and the results of one key may come from several. They are in few parts all the same.
    """
    parts: list[tuple[str, list[Fired]]] = []
    last_of_stream: dict[str, int] = {}
    last_of_key: dict[Key, int] = {}
    for result in sorted(fired, key=attrgetter("mark", "sequence")):
        at = last_of_stream.get(result.stream, -1)
        if at < last_of_key.get(result.key, 0):
            at = last_of_stream[result.stream] = len(parts)
            parts.append((result.stream, []))
        last_of_key[result.key] = at
        parts[at][1].append(result)
    return [_of_a_stream(stream, some) for stream, some in parts]


def placeholder(key: Key, stream: str, sequence: int) -> Elements:
    """An element without a value, for the error of a timer or window: it identifies the key's last message."""
    nothing = _times([NO_TIME])
    return Elements([None], _origin(stream, [sequence]), keys=[key], times=nothing, marks=nothing)


def _of_a_stream(stream: str, fired: list[Fired]) -> Elements:
    return Elements(
        [result.value for result in fired],
        _origin(stream, [result.sequence for result in fired]),
        None,
        [result.key for result in fired],
        _times([result.time for result in fired]),
        _times([result.mark for result in fired]),
        lineages=[result.lineage for result in fired],
    )


def _origin(stream: str, sequences: list[int]) -> Origin:
    return Origin(stream, np.array(sequences, np.int64))


def _with_earlier(origin: Origin, sequences: list[int]) -> Origin:
    """The messages, followed by earlier ones of which only the sequences are known."""
    if not sequences:
        return origin
    unknown = [None] * len(sequences)
    return replace(
        origin,
        sequences=np.concatenate([origin.sequences, np.array(sequences, np.int64)]),
        raw=None if origin.raw is None else [*origin.raw, *unknown],
        keys=None if origin.keys is None else [*origin.keys, *unknown],
        times=None if origin.times is None else np.concatenate([origin.times, _times([NO_TIME] * len(sequences))]),
        ids=None if origin.ids is None else [*origin.ids, *unknown],
        headers=None if origin.headers is None else [*origin.headers, *[NO_HEADERS] * len(sequences)],
    )


def _times(times: list[int]) -> Any:
    return np.array(times, np.int64)
