"""Whether a process grows: a line through its memory over time, and how sure that line is.

The time is cut into blocks of equal length, and each block stands for the median of what was measured in it, so that noise and
quick saw-teeth are gone. The slope is that of Theil and Sen: the median of the slopes between all pairs of blocks. Its
confidence interval is Sen's, which supposes nothing of the noise but that it is the same all the time. Once or twice a step up
is not growth; three and more are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from statistics import median, median_low

BLOCKS = 24
FEWEST_BLOCKS = 8
"""With fewer, not even a straight line upwards is more than chance."""
CONFIDENCE = 0.999
_QUANTILE = 3.291
"""Of the normal distribution, for that confidence on both sides."""
_HOUR_S = 3600.0


class Verdict(StrEnum):
    """What a slope says."""

    FLAT = "flat"
    """It is within the bound."""
    UNSURE = "unsure"
    """It is above the bound, and may be so by chance: a longer run tells."""
    GROWS = "grows"
    """It is above the bound, and so is all of its confidence interval."""
    TOO_SHORT = "too short"
    """There are too few measurements."""


@dataclass(frozen=True)
class Slope:
    """How much something grows in an hour.

    Attributes:
        per_hour: The slope, in units of what was measured.
        low: The lower end of its confidence interval.
        high: The upper end.
    """

    per_hour: float
    low: float
    high: float


def fit(times_s: Sequence[float], values: Sequence[float]) -> Slope | None:
    """The slope of values over time; None where there are too few.

    Args:
        times_s: When each was measured, in seconds, in order.
        values: What was measured.
    """
    blocks = _blocks(times_s, values)
    if len(blocks) < FEWEST_BLOCKS:
        return None
    slopes = sorted((v2 - v1) / (t2 - t1) * _HOUR_S for (t1, v1), (t2, v2) in combinations(blocks, 2))
    count = len(blocks)
    # Kendall's variance of how many pairs rise more than fall, where nothing but chance is at work.
    spread = _QUANTILE * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = max(0, math.floor((len(slopes) - spread) / 2))
    return Slope(median(slopes), slopes[low], slopes[-1 - low])


def judge(slope: Slope | None, bound: float) -> Verdict:
    """What a slope says, where so much in an hour is allowed."""
    if slope is None:
        return Verdict.TOO_SHORT
    if slope.per_hour <= bound:
        return Verdict.FLAT
    return Verdict.GROWS if slope.low > bound else Verdict.UNSURE


def _blocks(times_s: Sequence[float], values: Sequence[float]) -> list[tuple[float, float]]:
    """The middle of each block's time, and the median of its values; blocks without any are left out."""
    if not times_s or times_s[-1] <= times_s[0]:
        return []
    begin = times_s[0]
    width = (times_s[-1] - begin) / min(BLOCKS, len(times_s))
    found: dict[int, list[float]] = {}
    last = min(BLOCKS, len(times_s)) - 1
    for at, value in zip(times_s, values, strict=True):
        found.setdefault(min(last, int((at - begin) / width)), []).append(value)
    return [(begin + (number + 0.5) * width, median_low(some)) for number, some in sorted(found.items())]
