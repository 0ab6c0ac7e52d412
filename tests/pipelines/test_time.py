"""Marks, watermarks and time spans."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipelines.execution._progress import Progress
from headrace.pipelines.runtime import END, NO_TIME, Marks, prefix_maxima
from headrace.pipelines.time._time import microseconds_of

TIMES = st.lists(st.one_of(st.just(NO_TIME), st.integers(-(10**18), 10**18)), min_size=1)


@given(TIMES, st.integers(0, 100))
def test_marks_do_not_depend_on_where_a_stream_is_cut(times: list[int], cut: int) -> None:
    whole = prefix_maxima(np.array(times, np.int64)).tolist()
    assert whole == [max(times[: place + 1]) for place in range(len(times))]
    cut %= len(times)
    marks = Marks()
    marks.advance("s/0", max(times[:cut], default=NO_TIME))
    assert prefix_maxima(np.array(times[cut:], np.int64), marks.base("s/0")).tolist() == whole[cut:]


def test_the_watermark_of_all_streams_is_the_lowest() -> None:
    marks = Marks()
    progress = Progress(frozenset({7}), {7: marks})
    assert (progress.lowest(), progress.others((7, "a"))) == (NO_TIME, END)
    marks.advance("a", 5)
    marks.advance("a", 3)
    marks.advance("c", NO_TIME)
    assert (progress.lowest(), marks.base("a"), progress.others((7, "a")), progress.others((7, "b"))) == (5, 5, END, 5)
    marks.advance("b", 4)
    assert (progress.lowest(), progress.others((7, "a")), progress.others((7, "b"))) == (4, 4, 5)
    progress.is_held = True
    assert (progress.lowest(), progress.others((7, "a"))) == (NO_TIME, NO_TIME)


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
