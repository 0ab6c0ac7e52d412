"""The data between the steps of a pipeline: lists of values, with the messages that they come from."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headrace.pipelines.elements.headers import NO_HEADERS, Headers, select
from headrace.pipelines.elements.message import Origin, Times
from headrace.pipelines.elements.rows import Column, Rows

Key = bytes | str | int | float | tuple[Any, ...] | None
"""The types of keys."""

Lineage = tuple[Any, ...]
"""Tells an element apart from all others of its message and key: which way it took, and which one of several results it is.

Where an element has one result, that one has its lineage. A lineage is no beginning of another one but of what a timer, a window
or a join made later, which adds its name. So no two are alike, however elements are divided into micro-batches.
"""


@dataclass(frozen=True, slots=True)
class Elements:
    """Values between two steps, in order.

    Attributes:
        values: The values themselves.
        origin: The messages that they come from.
        at: The index in `origin` of the message that each comes from; None if each message has one element.
        keys: The key of each; None before the first `key_by`.
        times: The event time of each; None if no step needs times.
        marks: The watermark of its stream at each, in a keyed flow; None if no step needs times.
        decoded_by: The source whose decoder returned these values, so that they can be decoded again from `origin.raw`; None
            once a step has changed them.
        mixed: Whether it is unknown which message each comes from, so that none has a message's key and headers.
        headers: The headers of each; None if the headers of the messages hold.
        lineages: The lineage of each; None if no step needs them.
    """

    values: Sequence[Any]
    origin: Origin
    at: Sequence[int] | None = None
    keys: Sequence[Key] | None = None
    times: Times | None = None
    marks: Times | None = None
    decoded_by: int | None = None
    mixed: bool = False
    headers: Sequence[Headers] | None = None
    lineages: Sequence[Lineage] | None = None

    def __len__(self) -> int:
        """The number of elements."""
        return len(self.values)

    def place(self, index: int) -> int:
        """The index in `origin` of the message that an element comes from."""
        return index if self.at is None else self.at[index]

    def pick(self, indices: Sequence[int]) -> "Elements":
        """The elements at these indices."""
        values = self.values
        chosen = values.take(indices) if isinstance(values, Rows) else [values[i] for i in indices]
        return replace(self, values=chosen, **self._beside(indices))

    def changed(self, values: Sequence[Any], indices: Sequence[int] | None = None) -> "Elements":
        """Elements with other values; with `indices`, each value comes from the element at that index."""
        if indices is None:
            return replace(self, values=values, decoded_by=None)
        beside = self._beside(indices)
        if self.lineages is not None:
            beside["lineages"] = told_apart(self.lineages, indices)
        return replace(self, values=values, decoded_by=None, **beside)

    def places(self) -> Sequence[int]:
        """The index in `origin` of each element's message."""
        return range(len(self.values)) if self.at is None else self.at

    def sink_keys(self) -> Sequence[Key] | None:
        """The keys for a sink: the keys of the elements, or else of their messages; None if there are none."""
        own = None if self.mixed else self.origin.keys
        if self.keys is not None:
            return self.keys
        if own is None or self.at is None:
            return own
        return own.take(np.asarray(self.at, np.int64)) if isinstance(own, Column) else [own[place] for place in self.at]

    def own_headers(self) -> Sequence[Headers] | None:
        """The headers of each element: its own, or else the headers of its message; None if none has any."""
        if self.headers is not None:
            return self.headers
        own = None if self.mixed else self.origin.headers
        return own if own is None or self.at is None else select(own, self.at)

    def without_headers(self) -> "Elements":
        """The same elements without headers."""
        return self if self.own_headers() is None else replace(self, headers=[NO_HEADERS] * len(self))

    def timed(self) -> tuple[Sequence[Key], list[int], list[int]]:
        """The key, the event time and the mark of each element, in a keyed flow of a pipeline that uses event time."""
        assert self.keys is not None
        assert self.times is not None
        assert self.marks is not None
        return self.keys, self.times.tolist(), self.marks.tolist()

    def _beside(self, indices: Sequence[int]) -> dict[str, Any]:
        """The other columns for elements that come from the elements at these indices."""
        at, keys, times, marks, headers, lineages = self.at, self.keys, self.times, self.marks, self.headers, self.lineages
        return {
            "at": list(indices) if at is None else [at[i] for i in indices],
            "keys": None if keys is None else [keys[i] for i in indices],
            "times": None if times is None else times[np.asarray(indices, np.int64)],
            "marks": None if marks is None else marks[np.asarray(indices, np.int64)],
            "headers": None if headers is None else select(headers, indices),
            "lineages": None if lineages is None else [lineages[i] for i in indices],
        }


def told_apart(lineages: Sequence[Lineage], indices: Sequence[int]) -> list[Lineage]:
    """The lineages of results, each of the element at an index, of which several results add their number."""
    if len(set(indices)) == len(indices):
        return [lineages[index] for index in indices]
    counts, numbers, found = Counter(indices), Counter[int](), list[Lineage]()
    for index in indices:
        found.append((*lineages[index], numbers[index]) if counts[index] > 1 else lineages[index])
        numbers[index] += 1
    return found


class States(dict[Key, Any]):
    """The states of a step by key, in one bucket. An engine may keep some of them elsewhere, in a subclass.

    Attributes:
        index: The step's index of states by time; None until the step creates it, and after all states were read from the
            checkpoint.
        news: Keys whose states were updated from the checkpoint, and which the index does not include yet.
        by_clock: The index of states by the clock, likewise.
        clock_news: The keys that it does not include yet.
    """

    __slots__ = ("by_clock", "clock_news", "index", "news")

    def __init__(self) -> None:
        super().__init__()
        self.index: Any = None
        self.news: set[Key] = set()
        self.by_clock: Any = None
        self.clock_news: set[Key] = set()

    def renewed(self, keys: Iterable[Key]) -> None:
        """Records that states were replaced or removed from outside of their step."""
        for index, news in ((self.index, self.news), (self.by_clock, self.clock_news)):
            if index is not None:
                news.update(keys)

    def begin(self, keys: Collection[Key]) -> None:
        """Prepares for a step that uses the states of some keys; no step uses any state at the moment."""

    def touched(self, keys: Collection[Key]) -> None:
        """Records that states may have changed in place."""

    def having(self, keys: Iterable[Key]) -> list[Key]:
        """The keys that have a state, in order."""
        return [key for key in keys if key in self]

    def of(self, keys: Iterable[Key]) -> list[Any]:
        """The states of some keys, all of which have one, to be read only."""
        return [self[key] for key in keys]

    def own_index(self, entries: "Iterable[tuple[Key, int]]") -> Any:
        """An index of keys by time that is kept where the states are, with these entries; None for one in memory."""
        return None
