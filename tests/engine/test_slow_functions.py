"""Small messages that take long: a micro-batch of them uses every core."""

from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.engine.slow import before_the_keyed_stage, in_the_keyed_stage
from tests.examples.rig import rig

from headrace.connectors import FileSource

MICRO_BATCH = 300


@pytest.mark.parametrize("pipeline", [in_the_keyed_stage, before_the_keyed_stage])
def test_later_micro_batches_are_divided_among_processes(spark: SparkSession, tmp_path: Path, pipeline: object) -> None:
    file = tmp_path / "n" / "0"
    file.parent.mkdir()
    file.write_text("".join(f"{number}\n" for number in range(4 * MICRO_BATCH)))
    assert callable(pipeline)
    with rig(spark, tmp_path) as running:
        options = {"maxMessagesPerTrigger": str(MICRO_BATCH)}
        found = running.run(pipeline(), FileSource("n", [file], follow=False), options=options)["out"]
    calls = sorted((float(begun), int(process)) for process, begun in (line.decode().split() for line in found))
    assert len(calls) == 4 * MICRO_BATCH
    last = calls[-MICRO_BATCH:]
    assert len({process for _, process in last}) > 1
    changes = sum(one[1] != other[1] for one, other in pairwise(last))
    assert changes > MICRO_BATCH / 10, "they ran one after the other"
