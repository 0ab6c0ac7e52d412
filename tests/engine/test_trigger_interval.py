"""Micro-batches begin as far apart as the trigger requires."""

from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.examples.rig import rig

from headrace.connectors import FileSource
from headrace.engine import OptionError, start
from headrace.pipelines import Pipeline

INTERVAL_S = 1


def numbers() -> Pipeline:
    app = Pipeline("apart")
    app.source("n/*", decode=int).map(str).sink("texts")
    return app


def test_each_interval_has_one_micro_batch_at_most(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "numbers"
    file.write_text("".join(f"{n}\n" for n in range(40)))
    with rig(spark, tmp_path) as running:
        source = FileSource("n", [file], follow=False)
        options = {"maxMessagesPerTrigger": "10"}
        found = running.run(numbers(), source, options=options, trigger_interval=f"{INTERVAL_S} s")
        batches = [progress for progress in running.query.recentProgress if progress.numInputRows]

    assert sorted(map(int, found["texts"])) == list(range(40))
    assert len(batches) >= 4
    # Spark begins them at multiples of the interval; all but the first, which begins with the query.
    intervals = [datetime.fromisoformat(batch.timestamp).timestamp() // INTERVAL_S for batch in batches]
    assert sorted(set(intervals)) == intervals


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"trigger_interval": "5"}, "trigger_interval: '5' is not a duration; write for instance 30s"),
        ({"trigger_interval": "soon"}, "trigger_interval: 'soon' is not a duration; write for instance 30s"),
        ({"trigger_interval": "5 cows"}, "trigger_interval: '5 cows' is not a duration; write for instance 30s"),
        ({"worker_memory": "much"}, "worker_memory: 'much' is not a size; write for instance 64mb"),
        ({"trigger_interval": "5s", "available_now": True}, "available_now and trigger_interval cannot be combined"),
    ],
)
def test_an_invalid_duration_or_size_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path, words: dict[str, object], says: str
) -> None:
    with pytest.raises(OptionError, match=says):
        start(numbers(), spark, tmp_path / "checkpoint", **words)  # type: ignore[arg-type]
    assert not (tmp_path / "checkpoint").exists()
