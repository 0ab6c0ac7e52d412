"""Aggregates values of a key before the shuffle, so that one element of a key and its windows is shuffled instead of many.

The windows of a step get the same values as without it, in the same micro-batch. Values are combined if they are in the same
windows, and no window closes between them by the mark of their stream: so all of them are late or none is, whatever the stream
had before. The element has the place of the last of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.pipelines.elements.elements import Elements
from headrace.pipelines.elements.message import NO_TIME
from headrace.pipelines.steps.aggregation import Functions
from headrace.pipelines.windows.windows import Grid

SAMPLE = 256
MAX_KEYS = 0.75
"""If this share of the first values, or more, have keys of their own, there is little to combine."""
ROUNDED = "before_shuffle adds whole numbers and fractions only: use them, such as cents, or remove before_shuffle"
"""Sums of other numbers depend on the order, and so on what is combined."""


@dataclass(slots=True)
class Partial:
    """Several values of a key, which are in the same windows.

    Attributes:
        accumulator: Their aggregate.
        count: How many they are.
    """

    accumulator: Any
    count: int


def combined(windows: Grid, held: int, functions: Functions, elements: Elements) -> Elements:
    """The elements with a `Partial` in place of values of a key that belong together. A value alone stays as it is.

    Where a function raises, or a sum is not exact, the values stay as they are, too: the step finds the same, and fails.

    Args:
        windows: The windows of the step.
        held: How far the mark must be past a window's end to close it, in microseconds.
        functions: The aggregation of the step.
        elements: Elements with keys, times and marks, which all come from one stream.
    """
    keys, times, marks = elements.keys, elements.times, elements.marks
    if keys is None or times is None or marks is None or len(elements) < 2:
        return elements
    first = keys[:SAMPLE]
    if len(set(first)) >= MAX_KEYS * len(first):
        return elements
    closed = np.maximum(marks, NO_TIME + held) - held
    in_time = (times != NO_TIME) & ((times // windows.every) * windows.every + windows.size > closed)
    places, generations = times // windows.every, closed // windows.every
    belonging: dict[Any, list[int]] = {}
    for index, (identity, is_in_time) in enumerate(zip(_identities(keys, places, generations), in_time.tolist(), strict=True)):
        if is_in_time:
            belonging.setdefault(identity, []).append(index)
    return _with_partials(functions, elements, [some for some in belonging.values() if len(some) > 1])


def _identities(keys: Sequence[Any], places: Any, generations: Any) -> Sequence[Any]:
    """What values have in common that belong together."""
    if (places == places[0]).all() and (generations == generations[0]).all():
        return keys
    return list(zip(keys, places.tolist(), generations.tolist(), strict=True))


def _with_partials(functions: Functions, elements: Elements, belonging: Sequence[Sequence[int]]) -> Elements:
    values, replaced, gone = list(elements.values), dict[int, Partial](), set[int]()
    make, step, is_exact = functions.make, functions.step, functions.is_exact
    for indices in belonging:
        try:
            accumulator = make()
            for index in indices:
                accumulator = step(accumulator, values[index])
            if is_exact is not None and not is_exact(accumulator):
                if not replaced:  # Most likely, no other sum is.
                    return elements
                continue
        except Exception:  # The step meets the same error, and names the value.
            continue
        replaced[indices[-1]] = Partial(accumulator, len(indices))
        gone.update(indices[:-1])
    if not replaced:
        return elements
    there = [index for index in range(len(values)) if index not in gone]
    return elements.changed([replaced.get(index, values[index]) for index in there], there)
