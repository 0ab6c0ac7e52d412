"""Event time: how far it has come in each stream.

The mark of an element is the largest event time of the elements of its stream that reached the same `key_by` up to and
including it: a function of the stream alone, however it was cut into micro-batches. Whether an element is late depends on its
own mark, and on nothing else.
"""

import re
from datetime import datetime, timedelta
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from headrace.pipelines._errors import GraphError
from headrace.pipelines._message import microseconds
from headrace.pipelines._origin import NO_TIME, Times

END = 2**63 - 1
"""Stands for the end of time: a watermark after everything."""

EARLIEST, LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The event times that there are: those of the years 1 to 9999, as `datetime` has them."""

_UNITS = {
    **dict.fromkeys(("us", "microsecond", "microseconds"), 1),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1_000),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000),
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")


def bounded(times: Times, latest: int | None) -> tuple[Times, int]:
    """Times that bring event time forward: NO_TIME for those after the latest that may; and how many these are."""
    if latest is None:
        return times, 0
    ahead = times > latest
    count = int(np.count_nonzero(ahead))
    return (np.where(ahead, np.int64(NO_TIME), times), count) if count else (times, 0)


def prefix_maxima(times: Times, base: int = NO_TIME) -> Times:
    """The marks of consecutive elements of a stream.

    Args:
        times: Their event times, NO_TIME where one has none.
        base: The largest of all elements of the stream before them.
    """
    return np.maximum(np.maximum.accumulate(times), base)


def event_time(time: datetime | int) -> int:
    """An event time in microseconds since 1970-01-01 UTC.

    Raises:
        TypeError: it is neither a datetime nor a whole number.
        ValueError: a datetime has no time zone; or the time is in none of the years 1 to 9999.
    """
    found = microseconds(time)
    if not EARLIEST <= found <= LATEST:
        raise out_of_range(found)
    return found


def out_of_range(time: int) -> ValueError:
    """Why a time is not an event time."""
    return ValueError(f"event time {time} is in none of the years 1 to 9999; it is counted in microseconds since 1970 UTC")


def are_out_of_range(times: Times) -> npt.NDArray[np.bool_]:
    """Which of some times are not event times, nor NO_TIME."""
    wrong: npt.NDArray[np.bool_] = ((times < EARLIEST) & (times != NO_TIME)) | (times > LATEST)
    return wrong


def microseconds_of(span: timedelta | str) -> int:
    """How long a time span is: a timedelta, or text such as "90s", "5 minutes" or "1 hour 30 minutes".

    Raises:
        ValueError: the text says no time span.
    """
    if isinstance(span, timedelta):
        return span // timedelta(microseconds=1)
    return _parsed(span)


def in_words(microseconds: int) -> str:
    """A time span as text: hours, minutes and seconds."""
    return str(timedelta(microseconds=microseconds))


def span(given: timedelta | str, of: str, least: int = 1) -> int:
    """A time span that a pipeline is built with, in microseconds.

    Raises:
        GraphError: it is none, or shorter than `least`; the error says what it is `of`.
    """
    try:
        found = microseconds_of(given)
    except (TypeError, ValueError) as error:
        raise GraphError(f"{of}: {error}") from None
    if found < least:
        raise GraphError(f"{of} must be {'longer than nothing' if least else 'nothing or longer'}, and is {given!r}")
    return found


@lru_cache(256)
def _parsed(text: str) -> int:
    total, at = Fraction(0), 0
    while match := _PART.match(text.lower(), at):
        number, unit = match.groups()
        if unit not in _UNITS:
            break
        total, at = total + Fraction(number) * _UNITS[unit], match.end()
    if at < len(text) or not text.strip():
        raise ValueError(f"{text!r} is not a time span; write one such as '90s', '5 minutes' or '1 hour 30 minutes'")
    return round(total)
