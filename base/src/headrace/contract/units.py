"""Sizes and durations as text: `64mb`, `90s`. Every option, flag and file uses the same syntax.

Units of sizes are powers of 1024, as in Spark: `64mb`, `64m` and `64MiB` are all 67,108,864 bytes.
"""

import re
from datetime import timedelta
from fractions import Fraction
from functools import lru_cache

_SIZE_UNITS = (("b",), ("kb", "k", "kib"), ("mb", "m", "mib"), ("gb", "g", "gib"), ("tb", "t", "tib"))
_BYTES = {name: 1024**power for power, names in enumerate(_SIZE_UNITS) for name in names}

_DURATION_UNITS = (
    (1, ("us", "microsecond", "microseconds")),
    (1_000, ("ms", "millisecond", "milliseconds")),
    (1_000_000, ("s", "sec", "second", "seconds")),
    (60_000_000, ("m", "min", "minute", "minutes")),
    (3_600_000_000, ("h", "hour", "hours")),
    (86_400_000_000, ("d", "day", "days")),
)
_MICROSECONDS = {name: factor for factor, names in _DURATION_UNITS for name in names}

_MAX_DIGITS = 100
"""How long a number may be, with its point: Python reads and writes no number of several thousand digits."""
_NUMBER = rf"\s*((?=[0-9.]{{1,{_MAX_DIGITS}}}(?![0-9.]))[0-9]+(?:\.[0-9]+)?)\s*"
_BARE = re.compile(_NUMBER)
_WITH_UNIT = re.compile(_NUMBER + r"([a-z]+)\s*")

_SIZE_ADVICE = "write for instance 64mb; units are b, kb, mb, gb and tb, in powers of 1024"
_DURATION_ADVICE = "write for instance 30s; units are us, ms, s, m (minutes), h and d"


class UnitError(ValueError):
    """A text is not a size or a duration. The message contains the text, or its beginning, and what to write instead."""


def parse_size(text: str) -> int:
    """Parses a size, such as `1048576`, `256kb`, `64MiB` or `1.5 g`; returns it in bytes, rounded down.

    Raises:
        UnitError: The text is not a size.
    """
    if bare := _BARE.fullmatch(text):
        return int(Fraction(bare[1]))
    match = _WITH_UNIT.fullmatch(text.lower())
    if match is None or match[2] not in _BYTES:
        raise UnitError(f"{_excerpt(text)} is not a size; {_SIZE_ADVICE}")
    return int(Fraction(match[1]) * _BYTES[match[2]])


def format_size(size: int) -> str:
    """Formats a size in bytes, such as `64mb` or `1000b`, so that `parse_size` returns the same number."""
    power = next((power for power in range(len(_SIZE_UNITS) - 1, 0, -1) if size and size % 1024**power == 0), 0)
    return f"{size // 1024**power}{_SIZE_UNITS[power][0]}"


@lru_cache(256)
def parse_duration(text: str, *, unit_required: bool = False) -> timedelta:
    """Parses a duration, to the microsecond: `500ms`, `30s`, `1.5h`, `5 minutes`, `1 hour 30 minutes`.

    Args:
        text: The text.
        unit_required: Whether to reject a number without a unit; otherwise it is in seconds.

    Raises:
        UnitError: The text is not a duration, or the duration is too long for a timedelta.
    """
    if (bare := _BARE.fullmatch(text)) and not unit_required:
        return _timedelta(text, Fraction(bare[1]) * 1_000_000)
    total, at = Fraction(0), 0
    lowered = text.lower()
    while (match := _WITH_UNIT.match(lowered, at)) and match[2] in _MICROSECONDS:
        total, at = total + Fraction(match[1]) * _MICROSECONDS[match[2]], match.end()
    if at < len(lowered) or not at:
        raise UnitError(f"{_excerpt(text)} is not a duration; {_DURATION_ADVICE}")
    return _timedelta(text, total)


def milliseconds(seconds: float) -> int:
    """Converts seconds to whole milliseconds, as the protocol counts."""
    return round(seconds * 1000)


def format_duration(duration: timedelta) -> str:
    """Formats a duration, such as `500ms`, `90s` or `2h`, so that `parse_duration` returns the same duration.

    Raises:
        ValueError: The duration is negative.
    """
    microseconds = duration // timedelta(microseconds=1)
    if microseconds < 0:
        raise ValueError(f"{duration} is negative")
    if not microseconds:
        return "0s"
    factor, names = next(unit for unit in reversed(_DURATION_UNITS) if microseconds % unit[0] == 0)
    return f"{microseconds // factor}{names[0]}"


def _timedelta(text: str, microseconds: Fraction) -> timedelta:
    try:
        return timedelta(microseconds=round(microseconds))
    except OverflowError:
        raise UnitError(f"{_excerpt(text)} is too long; a duration has at most {timedelta.max.days} days") from None


def _excerpt(text: str) -> str:
    """Returns the text for an error: whole, unless it is longer than a line."""
    return repr(text if len(text) <= _MAX_DIGITS else f"{text[:_MAX_DIGITS]}...")
