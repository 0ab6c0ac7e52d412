"""What Spark's progress says of a micro-batch."""

import json
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.engine.spark.counts import stages_of

DEADLINE_S = 150


def test_the_stages_of_a_micro_batch_are_those_that_spark_names_with_their_times(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "one.txt").write_text("line\n")
    writer = spark.readStream.text(str(tmp_path / "lines")).writeStream.format("noop")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(DEADLINE_S)
    progress = query._jsq.lastProgress()
    told = json.loads(progress.json())["durationMs"]
    assert stages_of(progress) == told
    assert "addBatch" in told
