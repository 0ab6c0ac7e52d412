"""Event time and marks.

The mark of an element is the largest event time of the elements of its stream that have reached the same `key_by`, up to and
including the element. It depends only on the stream, not on the division into micro-batches. Whether an element is late depends
only on its mark.
"""

import math
from datetime import datetime, timedelta
from enum import Enum
from fractions import Fraction
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.contract.units import parse_duration
from headrace.pipelines._errors import GraphError
from headrace.pipelines.arguments import excerpt
from headrace.pipelines.elements.message import NO_TIME, Times, microseconds

END = 2**63 - 1
"""The end of event time: a watermark after all times."""

EARLIEST, LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The range of event times: the years 1 to 9999, as in `datetime`."""


def bounded(times: Times, latest: int | None) -> tuple[Times, int]:
    """The times that may advance a watermark, with NO_TIME for those after `latest`, and the number of the latter."""
    if latest is None:
        return times, 0
    ahead = times > latest
    count = int(np.count_nonzero(ahead))
    return (np.where(ahead, np.int64(NO_TIME), times), count) if count else (times, 0)


def prefix_maxima(times: Times, base: int = NO_TIME) -> Times:
    """Returns the marks of consecutive elements of a stream.

    Args:
        times: Their event times, NO_TIME for unknown ones.
        base: The largest of all elements of the stream before them.
    """
    return np.maximum(np.maximum.accumulate(times), base)


def first_time(times: Times) -> int:
    """The event time of the first element that has one; NO_TIME if none has."""
    known = times[times != NO_TIME]
    return int(known[0]) if len(known) else NO_TIME


class TimeUnit(Enum):
    """The unit of numbers that are times since 1970-01-01 UTC. Its value is the number of them in a second."""

    SECONDS = 1
    MILLISECONDS = 1_000
    MICROSECONDS = 1_000_000
    NANOSECONDS = 1_000_000_000


_LIKELY_S = 1_000_000_000, 4_102_444_800
"""The years 2001 to 2100, in seconds since 1970."""


def likely_unit(times: Times) -> TimeUnit | None:
    """The unit of numbers that were taken as microseconds, if all of them are about now in another one."""
    known = times[times != NO_TIME]
    for unit in (TimeUnit.SECONDS, TimeUnit.MILLISECONDS):
        earliest, latest = (edge * unit.value for edge in _LIKELY_S)
        if len(known) and earliest <= known.min() and known.max() < latest:
            return unit
    return None


def clock_time(time: datetime | int) -> int:
    """Converts a time by the clock to microseconds since 1970-01-01 UTC.

    Raises:
        TypeError: It is neither a datetime nor a whole number.
        ValueError: The datetime has no time zone, or the time is outside the years 1970 to 9999.
    """
    if isinstance(time, bool | np.bool_) or not isinstance(time, datetime | int | np.integer):
        raise TypeError(f"a time by the clock is a datetime with a time zone or a whole number, not {excerpt(time)}")
    found = microseconds(time)
    if not 0 <= found <= LATEST:
        raise ValueError(
            f"time by the clock {found} is outside the years 1970 to 9999; it must be in microseconds since 1970 UTC"
        )
    return found


def event_time(time: datetime | float, unit: TimeUnit | None = None) -> int:
    """Converts an event time to microseconds since 1970-01-01 UTC.

    Args:
        time: A datetime, or a number.
        unit: The unit of numbers, which may then have fractions; None for whole microseconds.

    Raises:
        TypeError: It is neither a datetime nor a number, or no whole number without a unit.
        ValueError: The datetime has no time zone, or the time is outside the years 1 to 9999.
    """
    if isinstance(time, datetime):
        found = microseconds(time)
    elif isinstance(time, float | np.floating) and unit is not None:
        if not math.isfinite(time):
            raise ValueError(f"event time {time} is not a number; return None for no time")
        found = round(Fraction(float(time)) * 1_000_000 / unit.value)
    else:
        whole = _whole(time, unit)
        found = whole if unit is None else whole * 1_000_000 // unit.value
    if not EARLIEST <= found <= LATEST:
        raise out_of_range(found)
    return found


def out_of_range(time: int) -> ValueError:
    """Returns the error for a time that is out of range."""
    return ValueError(
        f"event time {time} is outside the years 1 to 9999; it must be in microseconds since 1970 UTC, or event_time needs a unit"
    )


def _whole(time: Any, unit: TimeUnit | None) -> int:
    if isinstance(time, bool | np.bool_):
        raise TypeError(f"an event time is a datetime or a number, not {time}")
    try:
        return index(time)
    except TypeError:
        if isinstance(time, float | np.floating) and unit is None:
            raise TypeError(f"event time {time} has no unit: pass unit=TimeUnit.SECONDS or another one") from None
        raise TypeError(f"an event time is a datetime with a time zone or a number, not {excerpt(time)}") from None


def are_out_of_range(times: Times) -> npt.NDArray[np.bool_]:
    """Which times are out of range. NO_TIME is not."""
    wrong: npt.NDArray[np.bool_] = ((times < EARLIEST) & (times != NO_TIME)) | (times > LATEST)
    return wrong


def microseconds_of(span: timedelta | str) -> int:
    """Converts a timedelta to microseconds, or text such as "90s", "5 minutes" or "1 hour 30 minutes".

    Raises:
        TypeError: It is neither.
        UnitError: The text is not a duration.
    """
    if not isinstance(span, timedelta | str):
        raise TypeError(f"a duration is a timedelta, or text such as '5 minutes', not {excerpt(span)}")
    length = parse_duration(span, unit_required=True) if isinstance(span, str) else span
    return length // timedelta(microseconds=1)


def in_words(microseconds: int) -> str:
    """Formats a time span: hours, minutes and seconds."""
    return str(timedelta(microseconds=microseconds))


def span(duration: timedelta | str, of: str, least: int = 1) -> int:
    """Parses a duration in the definition of a pipeline. Returns microseconds.

    Args:
        duration: The duration.
        of: Its purpose, in the error.
        least: The smallest valid one, in microseconds.

    Raises:
        GraphError: It is not a duration, shorter than `least`, or longer than event time.
    """
    try:
        found = microseconds_of(duration)
    except (TypeError, ValueError) as error:
        raise GraphError(f"{of}: {error}") from None
    if found < least:
        raise GraphError(f"{of} must be {'positive' if least else 'at least 0'}, and is {duration!r}")
    if found > LATEST - EARLIEST:
        raise GraphError(f"{of} is {duration!r}, which is longer than event time, the years 1 to 9999")
    return found
