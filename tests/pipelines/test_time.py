"""Marks, watermarks and time spans."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipelines.runtime import END, NO_TIME, Watermarks, prefix_maxima
from headrace.pipelines.time._time import microseconds_of

TIMES = st.lists(st.one_of(st.just(NO_TIME), st.integers(-(10**18), 10**18)), min_size=1)


@given(TIMES, st.integers(0, 100))
def test_marks_do_not_depend_on_where_a_stream_is_cut(times: list[int], cut: int) -> None:
    whole = prefix_maxima(np.array(times, np.int64)).tolist()
    assert whole == [max(times[: place + 1]) for place in range(len(times))]
    cut %= len(times)
    watermarks = Watermarks()
    watermarks.advance("s/0", max(times[:cut], default=NO_TIME))
    assert prefix_maxima(np.array(times[cut:], np.int64), watermarks.base("s/0")).tolist() == whole[cut:]


def test_the_watermark_of_all_streams_is_the_lowest() -> None:
    watermarks = Watermarks()
    assert (watermarks.lowest(), watermarks.others("a")) == (NO_TIME, END)
    watermarks.advance("a", 5)
    watermarks.advance("a", 3)
    watermarks.advance("c", NO_TIME)
    assert (watermarks.lowest(), watermarks.base("a"), watermarks.others("a"), watermarks.others("b")) == (5, 5, END, 5)
    watermarks.advance("b", 4)
    assert (watermarks.lowest(), watermarks.others("a"), watermarks.others("b")) == (4, 4, 5)
    assert Watermarks(dict(watermarks.maxima)) == watermarks


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("90s", 90_000_000),
        ("5 minutes", 300_000_000),
        ("1 hour 30 minutes", 5_400_000_000),
        ("1.5h", 5_400_000_000),
        (" 2 Days ", 172_800_000_000),
        ("250ms", 250_000),
        ("1us", 1),
        ("0.1 s", 100_000),
    ],
)
def test_time_spans(text: str, microseconds: int) -> None:
    assert microseconds_of(text) == microseconds
    assert microseconds_of(timedelta(microseconds=microseconds)) == microseconds


@pytest.mark.parametrize("text", ["", "5", "minutes", "5 parsecs", "-5s", "5s ago", "5 5s"])
def test_text_that_is_no_time_span(text: str) -> None:
    with pytest.raises(ValueError, match=f"{text!r} is not a duration"):
        microseconds_of(text)
