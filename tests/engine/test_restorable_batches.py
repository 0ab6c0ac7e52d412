"""How many micro-batches of an application can be restored: as many as Spark's logs have, by `minBatchesToRetain`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.engine.levels import Count, two_levels
from tests.examples.rig import rig

from headrace.connectors import FileSource
from headrace.engine import StoredStates
from headrace.engine.applications.offline.reposition import StoredPositions
from headrace.engine.checkpoint.moves import By, Direction

RETAINED = "spark.sql.streaming.minBatchesToRetain"


@contextmanager
def retaining(spark: SparkSession, batches: int) -> Iterator[None]:
    before = spark.conf.get(RETAINED)
    spark.conf.set(RETAINED, str(batches))
    try:
        yield
    finally:
        spark.conf.set(RETAINED, str(before))


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    file = tmp_path / "n" / "0"
    file.parent.mkdir()
    file.write_text("".join(f"{n}\n" for n in range(40)))
    return file


def run(spark: SparkSession, folder: Path, file: Path, checkpoint: str = "checkpoint") -> None:
    with rig(spark, folder) as running:
        options = {"maxMessagesPerTrigger": "4", "onOlderCheckpoint": "accept"}
        running.run(two_levels(), FileSource("n", [file], follow=False), checkpoint, available_now=True, options=options)


def batches(checkpoint: Path, log: str) -> list[int]:
    return sorted(int(path.name) for path in (checkpoint / log).iterdir() if path.name.isdecimal())


def manifests(checkpoint: Path) -> list[int]:
    return sorted(int(path.name.split(".")[0]) for path in (checkpoint / "headrace" / "states" / "manifests").iterdir())


def set_back(checkpoint: Path, batch: int) -> None:
    for log in "offsets", "commits":
        for number in batches(checkpoint, log):
            if number > batch:
                (checkpoint / log / str(number)).unlink()
                (checkpoint / log / f".{number}.crc").unlink(missing_ok=True)


def counts(spark: SparkSession, checkpoint: Path) -> dict[object, int]:
    states = StoredStates(spark, str(checkpoint), two_levels().graph)
    return {key: state.seen for key, state in states.all("count") if isinstance(state, Count)}


def after(messages: int) -> dict[object, int]:
    return {key: len(range(key, messages, 5)) for key in range(min(5, messages))}


def read(checkpoint: Path, batch: int) -> int:
    """The number of messages up to the end of a micro-batch."""
    (offset,) = (json.loads(line) for line in (checkpoint / "offsets" / str(batch)).read_text().splitlines() if "streams" in line)
    end = int(offset["streams"]["n/0"]["sequence"])  # a byte of the file
    return end // 2 if end <= 20 else 10 + (end - 20) // 3


def test_every_micro_batch_that_sparks_logs_have_can_be_restored(spark: SparkSession, tmp_path: Path, numbers: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    with retaining(spark, 4):
        run(spark, tmp_path, numbers)
        there = batches(checkpoint, "commits")
        assert len(there) >= 4
        assert set(there) <= set(manifests(checkpoint)) <= {there[0] - 1, *there}
        # Spark starts only if its log has the micro-batch before the last one, too.
        for batch in reversed(there[1:-1]):
            set_back(checkpoint, batch)
            assert counts(spark, checkpoint) == after(read(checkpoint, batch))
        run(spark, tmp_path, numbers)
        assert counts(spark, checkpoint) == after(40)


def test_positions_are_moved_if_spark_retains_a_single_micro_batch(spark: SparkSession, tmp_path: Path, numbers: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    with retaining(spark, 1):
        run(spark, tmp_path, numbers)
        # Killed with a planned micro-batch: Spark has deleted what was before the last committed one.
        last = batches(checkpoint, "commits")[-1]
        (checkpoint / "offsets" / str(last + 1)).write_bytes((checkpoint / "offsets" / str(last)).read_bytes())
        for log in "offsets", "commits":
            for number in batches(checkpoint, log):
                if number < last:
                    (checkpoint / log / str(number)).unlink()
        positions = StoredPositions(spark, str(checkpoint))
        positions.write(str(tmp_path / "moved"), positions.changes(By(-15), Direction.BACK, ["n/0"]))
        run(spark, tmp_path, numbers, "moved")
    assert sum(counts(spark, tmp_path / "moved").values()) == 45
