"""Marks, watermarks and time spans."""

import re
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipelines import Message, Pipeline, StepError, TimeUnit, Trial, count
from headrace.pipelines.execution.progress import Progress
from headrace.pipelines.runtime import END, NO_TIME, Marks, prefix_maxima
from headrace.pipelines.time.time import microseconds_of

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


def timed(time: object, unit: TimeUnit | None = None) -> int | None:
    """The event time that a step gives a value."""
    found: list[int | None] = []
    app = Pipeline("timed")
    values = app.source("s/*", decode=lambda payload: time).event_time(lambda value: value, unit=unit)  # type: ignore[arg-type,return-value]
    keyed = values.key_by(lambda value: 0)
    keyed.stateful(lambda value, state, context: found.append(context.event_time), list, name="found").sink("out")
    Trial(app).send(Message(b"", stream="s/0"))
    return found[0]


NOW_S = 1_700_000_000


@pytest.mark.parametrize(
    ("time", "unit"),
    [
        (NOW_S, TimeUnit.SECONDS),
        (float(NOW_S), TimeUnit.SECONDS),
        (np.float64(NOW_S), TimeUnit.SECONDS),
        (NOW_S * 1_000, TimeUnit.MILLISECONDS),
        (NOW_S * 1_000_000, TimeUnit.MICROSECONDS),
        (NOW_S * 1_000_000, None),
        (np.int64(NOW_S * 1_000_000), None),
        (NOW_S * 1_000_000_000 + 999, TimeUnit.NANOSECONDS),
        (datetime.fromtimestamp(NOW_S, UTC), None),
        (datetime.fromtimestamp(NOW_S, timezone(timedelta(hours=5))), TimeUnit.SECONDS),
    ],
)
def test_event_times_are_datetimes_or_numbers_in_a_unit(time: object, unit: TimeUnit | None) -> None:
    assert timed(time, unit) == NOW_S * 1_000_000


def test_fractions_of_a_unit_are_kept_to_a_microsecond() -> None:
    assert timed(1.5, TimeUnit.SECONDS) == 1_500_000
    assert timed(-0.25, TimeUnit.MILLISECONDS) == -250


@pytest.mark.parametrize(
    ("time", "unit", "why"),
    [
        (True, None, "a datetime or a number, not True"),
        (False, TimeUnit.SECONDS, "a datetime or a number, not False"),
        (np.bool_(True), None, "a datetime or a number, not True"),
        (1.5e15, None, "has no unit: pass unit=TimeUnit.SECONDS"),
        (float("nan"), TimeUnit.SECONDS, "is not a number; return None"),
        (float("inf"), TimeUnit.SECONDS, "is not a number; return None"),
        ("2026-01-01", None, "a datetime with a time zone or a number, not '2026-01-01'"),
        (date(2026, 1, 1), None, "a datetime with a time zone or a number, not datetime.date"),
        (np.datetime64("2026-01-01"), None, "a datetime with a time zone or a number"),
        (datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None), None, "has no time zone"),
        (NOW_S * 1_000, TimeUnit.SECONDS, "outside the years 1 to 9999"),
        (NOW_S * 1_000_000_000, None, "event_time needs a unit"),
    ],
)
def test_what_is_certainly_no_event_time_is_refused(time: object, unit: TimeUnit | None, why: str) -> None:
    with pytest.raises(StepError, match=re.escape(why)):
        timed(time, unit)


@pytest.mark.parametrize(("factor", "unit"), [(1, "SECONDS"), (1_000, "MILLISECONDS")])
def test_numbers_that_are_hardly_microseconds_are_warned_of_once(
    factor: int, unit: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = Pipeline("warned")
    app.source("s/*", decode=int).event_time(lambda value: value, name="when").key_by().aggregate(count()).sink("out", repr_of)
    trial = Trial(app)
    for second in range(3):
        trial.send(Message(b"%d" % ((NOW_S + second) * factor), stream="s/0"))
    assert [record.getMessage() for record in caplog.records] == [
        f"event times such as {NOW_S * factor} are early in 1970: if step when returns {unit.lower()}, "
        f"pass unit=TimeUnit.{unit} to event_time"
    ]
    trial.send(Message(b"%d" % (NOW_S * 1_000_000), stream="s/0"))
    assert len(caplog.records) == 1


def repr_of(value: object) -> bytes:
    return repr(value).encode()
