"""The order in which elements reach a `key_by`, which does not depend on the division into micro-batches."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, pairwise, repeat
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from headrace.pipelines.elements.elements import Elements
from headrace.pipelines.elements.headers import NO_HEADERS, Headers
from headrace.pipelines.elements.message import NO_TIME, Origin, Times
from headrace.pipelines.elements.rows import joined

T = TypeVar("T")


def in_order(items: Sequence[tuple[int, Elements]]) -> list[tuple[int, Elements]]:
    """Orders elements by the `key_by` that they go to, and by stream.

    The elements of one stream that took several paths (merged branches, buckets of the shuffle before) are combined, in the order
    of their marks, then of their sequences. The mark of a fired result is the time at which it was due, so it precedes the
    element that made it due, and follows all earlier ones.
    """
    together: defaultdict[tuple[int, str], list[Elements]] = defaultdict(list)
    for key_by, elements in items:
        if elements:
            together[key_by, elements.origin.stream].append(elements)
    return [(key_by, part) for key_by, stream in sorted(together) for part in _of_a_stream(together[key_by, stream])]


def _of_a_stream(parts: list[Elements]) -> list[Elements]:
    positions = [_positions(part) for part in parts]
    by_first = sorted(range(len(parts)), key=lambda number: tuple(positions[number][0]))
    rising = all(_order(positions[number]) is None for number in by_first)
    if rising and all(tuple(positions[a][-1]) < tuple(positions[b][0]) for a, b in pairwise(by_first)):
        return [parts[number] for number in by_first]
    joined, order = _joined(parts), _order(np.concatenate(positions))
    return [joined if order is None else joined.pick(order)]


def _order(positions: npt.NDArray[np.int64]) -> list[int] | None:
    """The permutation that stably sorts positions; None if they are already sorted."""
    order = np.lexsort((positions[:, 1], positions[:, 0]))
    return None if np.array_equal(order, np.arange(len(order))) else order.tolist()


def _positions(elements: Elements) -> npt.NDArray[np.int64]:
    """The mark and the sequence of each element."""
    sequences = elements.origin.sequences
    if elements.at is not None:
        sequences = sequences[np.asarray(elements.at, np.int64)]
    marks = np.zeros_like(sequences) if elements.marks is None else elements.marks
    return np.column_stack([marks, sequences])


def _joined(parts: Sequence[Elements]) -> Elements:
    if len(parts) == 1:
        return parts[0]
    origins: dict[int, Origin] = {id(part.origin): part.origin for part in parts}
    firsts = dict(zip(origins, np.cumsum([0, *map(len, origins.values())]).tolist(), strict=False))
    origin = _origin(list(origins.values()))
    places = [firsts[id(part.origin)] + place for part in parts for place in part.places()]
    return Elements(
        joined([part.values for part in parts], origin, places),
        origin,
        places,
        _chained([part.keys for part in parts]),
        _concatenated([part.times for part in parts]),
        _concatenated([part.marks for part in parts]),
        headers=_headers(parts),
        lineages=_chained([part.lineages for part in parts]),
    )


def _origin(origins: Sequence[Origin]) -> Origin:
    if len(origins) == 1:
        return origins[0]
    return Origin(
        origins[0].stream,
        np.concatenate([origin.sequences for origin in origins]),
        _filled([(origin.raw, len(origin)) for origin in origins]),
        _filled([(origin.keys, len(origin)) for origin in origins]),
        _concatenated([_times_of(origin) for origin in origins]),
        _filled([(origin.ids, len(origin)) for origin in origins]),
        _filled_headers([(origin.headers, len(origin)) for origin in origins]),
    )


def _headers(parts: Sequence[Elements]) -> list[Headers] | None:
    """The headers of all elements; None if all have the headers of their messages."""
    if all(part.headers is None and not (part.mixed and part.origin.headers) for part in parts):
        return None
    return _filled_headers([(part.own_headers(), len(part)) for part in parts])


def _filled_headers(columns: Sequence[tuple[Sequence[Headers] | None, int]]) -> list[Headers] | None:
    filled = _filled(columns)
    return None if filled is None else [headers or NO_HEADERS for headers in filled]


def _times_of(origin: Origin) -> Times:
    return np.full(len(origin), NO_TIME, np.int64) if origin.times is None else origin.times


def _filled(columns: Sequence[tuple[Sequence[T] | None, int]]) -> list[T | None] | None:
    """The concatenated columns, with None for each row of a missing one."""
    if all(column is None for column, _ in columns):
        return None
    return list(chain.from_iterable(repeat(None, rows) if column is None else column for column, rows in columns))


def _chained(columns: Sequence[Sequence[T] | None]) -> list[T] | None:
    there = [column for column in columns if column is not None]
    return list(chain.from_iterable(there)) if len(there) == len(columns) else None


def _concatenated(columns: Sequence[Any]) -> Any:
    return np.concatenate(columns) if all(column is not None for column in columns) else None
