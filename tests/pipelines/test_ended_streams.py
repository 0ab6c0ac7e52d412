"""Streams that have ended delay nothing; one that comes back continues where it was."""

from datetime import timedelta

import pytest
from tests.pipelines.rig import keyed, lines, messages, pipeline, text

from headrace.pipelines import Pipeline, Trial, total, tumbling


def daily() -> Pipeline:
    app = pipeline()
    keyed(app).window(tumbling("1 day")).aggregate(total(), name="days").sink("out", encode=text)
    return app


DAY = int(timedelta(days=1).total_seconds())


@pytest.mark.parametrize("restarts", [False, True])
def test_a_month_of_daily_streams_closes_its_windows(restarts: bool) -> None:
    trial = Trial(daily(), buckets=2)
    for day in range(29):
        trial.send(*messages(f"a@{day * DAY}={day} a@{day * DAY + 9}=1", f"s/{day}"))
        trial.end(f"s/{day}")
        if restarts:
            trial.restart()
    assert lines(trial) == [f"a {day + 1}" for day in range(28)]


def test_what_all_streams_that_have_ended_reached_is_closed_and_no_more() -> None:
    trial = Trial(daily())
    trial.send(*messages("a@1=1", "s/0"), *messages("a@2=4", "s/1"))
    trial.send(*messages(f"a@{DAY}=2", "s/0"))
    trial.end("s/0")
    assert lines(trial) == [], "s/1 may have more of the first day"
    trial.end("s/1")
    assert lines(trial) == ["a 5"], "nobody knows that there will be no stream with more of the second day"
    trial.finish()
    assert lines(trial) == ["a 5", "a 2"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_stream_that_comes_back_goes_on_where_it_was(restarts: bool) -> None:
    trial = Trial(daily())
    trial.send(*messages(f"a@1=1 a@{DAY}=2", "s/0"))
    trial.end("s/0", "s/7")
    if restarts:
        trial.restart()
    trial.send(*messages(f"a@3=8 a@{2 * DAY}=16", "s/0"))
    assert lines(trial) == ["a 1", "a 2"], "what it brings of the first day is late"
    trial.send(*messages(f"a@{2 * DAY}=1", "s/1"))
    trial.send(*messages(f"a@{3 * DAY}=1", "s/0"))
    assert lines(trial) == ["a 1", "a 2"], "s/1 is waited for"
    trial.end("s/1")
    assert lines(trial) == ["a 1", "a 2", "a 17"]
