"""A backlog of several streams gives one result for each window on Spark, in both modes, whatever a micro-batch contains."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.engine.backlog import STREAMS, hours
from tests.examples.rig import records, rig

from headrace.connectors import FileSource

WINDOWS = 24


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

    def has_all(folder: Path) -> bool:
        # In real time, the last windows close after the streams have ended and all is acknowledged.
        return all(len(records(folder / sink)) >= WINDOWS for sink in ("hours", "later"))

    with rig(spark, tmp_path) as running:
        results = running.run(hours(), FileSource("n", files, follow=False), options=options, until=has_all, **how)
    assert sorted(results["hours"]) == sorted(expected)
    assert sorted(results["later"]) == sorted(later)
