"""Counts of different values: exact, and by a sketch of a fixed size.

Both depend on nothing but the values: not on their order, on how often each occurs, nor on which accumulators are combined. A
sketch is a HyperLogLog, whose registers are maxima. Its estimate needs no corrections: it is of Ertl, "New cardinality estimation
algorithms for HyperLogLog sketches", 2017.
"""

import math
from hashlib import blake2b
from typing import Any

from headrace.pipelines.elements.elements import Key
from headrace.pipelines.steps.keys import normal_key

BITS = 12
"""The sketch has 2 to the power of this registers: a relative error of 1.04 / 64, or 1.6 %, in two of three cases."""
REGISTERS = 1 << BITS
_RANKS = 64 - BITS
_FEW = 512
"""So few registers are kept by number, since most keys have few values."""
_INFINITY = 1 / (2 * math.log(2))


def with_value(values: dict[Key, None], value: Any) -> dict[Key, None]:
    """Adds a value to an exact count; None counts as no value.

    Raises:
        ValueError: The value cannot be a key.
        TypeError: The same.
    """
    if value is not None:
        values[normal_key(value)] = None
    return values


def of_both(first: dict[Key, None], second: dict[Key, None]) -> dict[Key, None]:
    """The values of both."""
    return first | second


Sketch = dict[int, int] | bytearray
"""The rank in each register: by its number while few have one, then in all."""


def sketched(sketch: Sketch, value: Any) -> Sketch:
    """Adds a value to a sketch; None counts as no value. Errors as `with_value`."""
    if value is None:
        return sketch
    key = normal_key(value)
    hashed = int.from_bytes(blake2b(f"{type(key).__name__} {key!r}".encode(), digest_size=8).digest(), "big")
    rest = hashed & ((1 << _RANKS) - 1)
    return _raised(sketch, hashed >> _RANKS, _RANKS - rest.bit_length() + 1)


def combined(first: Sketch, second: Sketch) -> Sketch:
    """The sketch of the values of both."""
    registers = second.items() if isinstance(second, dict) else enumerate(second)
    for register, rank in registers:
        first = _raised(first, register, rank)
    return first


def estimate(sketch: Sketch) -> int:
    """About how many different values a sketch has seen."""
    counts = [0] * (_RANKS + 2)
    for rank in sketch.values() if isinstance(sketch, dict) else sketch:
        counts[rank] += 1
    counts[0] += REGISTERS - sum(counts)
    total = REGISTERS * _tau(1 - counts[_RANKS + 1] / REGISTERS)
    for rank in range(_RANKS, 0, -1):
        total = (total + counts[rank]) / 2
    total += REGISTERS * _sigma(counts[0] / REGISTERS)
    return round(_INFINITY * REGISTERS * REGISTERS / total) if total < math.inf else 0


def _raised(sketch: Sketch, register: int, rank: int) -> Sketch:
    if isinstance(sketch, dict):
        if rank > sketch.get(register, 0):
            sketch[register] = rank
        if len(sketch) <= _FEW:
            return sketch
        all_ = bytearray(REGISTERS)
        for at, value in sketch.items():
            all_[at] = value
        return all_
    if rank > sketch[register]:
        sketch[register] = rank
    return sketch


def _sigma(share: float) -> float:
    """The share of the registers without a rank in the estimate."""
    if share == 1:
        return math.inf
    found, before, factor = share, 0.0, 1.0
    while found != before:
        share *= share
        before, found, factor = found, found + share * factor, factor * 2
    return found


def _tau(share: float) -> float:
    """The share of the registers with the highest rank in it."""
    if share in (0, 1):
        return 0.0
    found, before, factor = 1 - share, 0.0, 1.0
    while found != before:
        share = math.sqrt(share)
        factor /= 2
        before, found = found, found - (1 - share) ** 2 * factor
    return found / 3
