"""Decides whether a process grows, by a line through its memory over time and the confidence interval of its slope.

The time is divided into blocks of equal length, each represented by the median of its measurements, which removes noise and
short sawtooth patterns. The slope is the Theil-Sen estimator: the median of the slopes between all pairs of blocks. Its
confidence interval is Sen's, which only assumes that the noise is the same all the time. One or two steps up are not growth;
three or more are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from statistics import median, median_low

BLOCKS = 24
MIN_BLOCKS = 8
"""With fewer blocks, not even a straight rising line is significant."""
CONFIDENCE = 0.999
_QUANTILE = 3.291
"""The two-sided quantile of the normal distribution for that confidence."""
_HOUR_S = 3600.0


class Verdict(StrEnum):
    """The verdict on a slope."""

    FLAT = "flat"
    """It is within the bound."""
    UNSURE = "unsure"
    """It is above the bound, but perhaps by chance: a longer run can decide."""
    GROWS = "grows"
    """Its entire confidence interval is above the bound."""
    TOO_SHORT = "too short"
    """There are too few measurements."""


@dataclass(frozen=True)
class Slope:
    """The growth per hour.

    Attributes:
        per_hour: The slope, in the unit of the measurements.
        low: The lower end of its confidence interval.
        high: The upper end.
    """

    per_hour: float
    low: float
    high: float


def fit(times_s: Sequence[float], values: Sequence[float]) -> Slope | None:
    """Returns the slope of values over time; None if there are too few.

    Args:
        times_s: The time of each measurement, in seconds, in order.
        values: The measurements.
    """
    blocks = _blocks(times_s, values)
    if len(blocks) < MIN_BLOCKS:
        return None
    slopes = sorted((v2 - v1) / (t2 - t1) * _HOUR_S for (t1, v1), (t2, v2) in combinations(blocks, 2))
    count = len(blocks)
    # Kendall's variance of the number of rising minus falling pairs, if there is no trend.
    spread = _QUANTILE * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = max(0, math.floor((len(slopes) - spread) / 2))
    return Slope(median(slopes), slopes[low], slopes[-1 - low])


def judge(slope: Slope | None, bound: float) -> Verdict:
    """Returns the verdict on a slope, for an allowed growth per hour."""
    if slope is None:
        return Verdict.TOO_SHORT
    if slope.per_hour <= bound:
        return Verdict.FLAT
    return Verdict.GROWS if slope.low > bound else Verdict.UNSURE


def _blocks(times_s: Sequence[float], values: Sequence[float]) -> list[tuple[float, float]]:
    """Returns the middle of each block's time, and the median of its values, without empty blocks."""
    if not times_s or times_s[-1] <= times_s[0]:
        return []
    begin = times_s[0]
    width = (times_s[-1] - begin) / min(BLOCKS, len(times_s))
    found: dict[int, list[float]] = {}
    last = min(BLOCKS, len(times_s)) - 1
    for at, value in zip(times_s, values, strict=True):
        found.setdefault(min(last, int((at - begin) / width)), []).append(value)
    return [(begin + (number + 0.5) * width, median_low(some)) for number, some in sorted(found.items())]
