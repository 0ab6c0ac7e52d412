"""A backlog of several streams gives one result for each window on Spark, in both modes, whatever a micro-batch contains."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.examples.rig import rig

from headrace.connectors import FileSource
from headrace.pipelines import Pipeline, Window, count, tumbling

SECOND = 1_000_000
STREAMS, WINDOWS = 4, 24


def described(key: object, values: int, window: Window) -> str:
    return f"{window.start // SECOND} {values}"


def hours() -> Pipeline:
    """Windows of an hour of all streams: directly, and of windows of half an hour."""
    app = Pipeline("backlog")
    seconds = app.source("n/*", decode=int, await_streams=STREAMS).event_time(lambda value: value * SECOND, name="time")
    keyed = seconds.key_by(lambda _: "all", name="all")
    keyed.window(tumbling("1 hour")).aggregate(count(), output=described, name="hours").sink("hours")
    halves = keyed.window(tumbling("30 minutes")).aggregate(count(), name="halves")
    later = halves.key_by(lambda _: "all", name="again").window(tumbling("1 hour"))
    later.aggregate(count(), output=described, name="later").sink("later")
    return app


@pytest.mark.parametrize(
    ("how", "options"),
    [
        ({"available_now": True}, {"maxMessagesPerTrigger": "50"}),
        ({"available_now": True}, {}),
        ({"real_time": True, "trigger_interval": "200ms", "finish": True}, {}),
    ],
    ids=["small micro-batches", "one micro-batch", "real time"],
)
def test_a_backlog_of_several_streams_has_one_result_for_each_window(
    spark: SparkSession, tmp_path: Path, how: dict[str, Any], options: dict[str, str]
) -> None:
    files = [tmp_path / f"part-{number}" for number in range(STREAMS)]
    for number, file in enumerate(files):
        file.write_text("".join(f"{hour * 3600 + minute * 60 + number}\n" for hour in range(WINDOWS) for minute in (1, 31)))
    expected = {b"%d %d" % (hour * 3600, 2 * STREAMS) for hour in range(WINDOWS)}
    later = {b"%d 2" % (hour * 3600) for hour in range(WINDOWS)}
    with rig(spark, tmp_path) as running:
        results = running.run(hours(), FileSource("n", files, follow=False), options=options, **how)
    assert sorted(results["hours"]) == sorted(expected)
    assert sorted(results["later"]) == sorted(later)
