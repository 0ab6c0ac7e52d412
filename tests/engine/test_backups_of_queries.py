"""Backups of checkpoints that real queries write, and what continues from them."""

import threading
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.engine.remainders import counts
from tests.engine.test_positions import add, expected, run

from headrace.engine import (
    CheckpointError,
    StoredPositions,
    StoredStates,
    back_up_checkpoint,
    restore_checkpoint,
    verify_checkpoint,
)

FIRST, LAST = 100, 250


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "n" / "0"
    file.parent.mkdir()
    add(file, range(FIRST, LAST))
    return file


class Backups:
    """Takes backups of a checkpoint, one after the other, until it is ended; the last one afterwards."""

    def __init__(self, checkpoint: Path, into: Path) -> None:
        self._checkpoint, self._into = checkpoint, into
        self.taken = list[Path]()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._take, name="backups")

    def __enter__(self) -> "Backups":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _take(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._ends.wait(0.1)
            folder = self._into / f"{len(self.taken)}"
            try:
                back_up_checkpoint(str(self._checkpoint), str(folder))
            except CheckpointError as error:
                if "no committed micro-batch" not in str(error):
                    raise
            else:
                self.taken.append(folder)


def test_an_application_continues_from_a_backup_that_was_taken_while_it_ran(
    spark: SparkSession, tmp_path: Path, source: Path
) -> None:
    with Backups(tmp_path / "checkpoint", tmp_path / "backups") as backups:
        assert run(spark, tmp_path, source, "checkpoint") == expected(Counter(), range(FIRST, LAST))
    by_batch: dict[int, Path] = {}
    for folder in backups.taken:
        found = verify_checkpoint(str(folder))
        assert found.wrong == ()
        assert found.batch is not None
        by_batch[found.batch] = folder
    for number, folder in enumerate([by_batch[min(by_batch)], by_batch[max(by_batch)]]):
        into = tmp_path / f"restored-{number}"
        batch = restore_checkpoint(str(folder), str(into)).batch
        read = _numbers_read(spark, into)
        states = StoredStates(spark, str(into), counts().graph)
        assert states.committed.batch == batch
        seen: Counter[int] = Counter()
        expected(seen, read)
        assert {key: state.seen for key, state in states.all("count")} == dict(seen)
        again = expected(seen, range(read.stop, LAST))
        assert run(spark, tmp_path, source, into.name) == again


def _numbers_read(spark: SparkSession, checkpoint: Path) -> range:
    """The numbers that a query has read; each is four bytes, and a sequence is the number of bytes to just past its record."""
    streams = StoredPositions(spark, str(checkpoint)).committed.offsets[0].streams
    return range(FIRST, FIRST + max(0, streams["n/0"].sequence) // 4 if "n/0" in streams else FIRST)


def test_what_hadoop_reads_and_writes_is_the_same_backup(spark: SparkSession, tmp_path: Path, source: Path) -> None:
    results = run(spark, tmp_path, source, "checkpoint")
    checkpoint, there, here, restored = (f"file:{tmp_path / name}" for name in ("checkpoint", "there", "here", "restored"))
    by_hadoop, by_python = back_up_checkpoint(checkpoint, there, spark), back_up_checkpoint(checkpoint, here)
    assert by_hadoop == by_python
    assert verify_checkpoint(there).wrong == verify_checkpoint(here, spark).wrong == ()
    assert verify_checkpoint(checkpoint, spark) == verify_checkpoint(checkpoint)
    restore_checkpoint(there, restored, spark)
    assert verify_checkpoint(restored, spark).wrong == ()
    seen: Counter[int] = Counter()
    assert results == expected(seen, range(FIRST, LAST))
    add(source, range(LAST, LAST + 10))
    assert run(spark, tmp_path, source, "restored") == expected(seen, range(LAST, LAST + 10))

    for name, said in (("commits", "is missing"), ("headrace/states", "cannot be read")):
        victim = next(
            path for path in sorted((tmp_path / "there/files" / name).iterdir()) if path.is_file() and path.name[0] != "."
        )
        if said == "is missing":
            victim.unlink()
        else:
            victim.write_bytes(b"\0" * victim.stat().st_size)
        wrong = verify_checkpoint(there, spark).wrong
        assert any(victim.name in sentence and said in sentence for sentence in wrong), wrong
    with pytest.raises((CheckpointError, OSError)):
        restore_checkpoint(there, f"file:{tmp_path / 'torn'}", spark)
    with pytest.raises(CheckpointError, match="incomplete"):
        StoredPositions(spark, str(tmp_path / "torn"))


def test_states_of_sparks_operators_and_its_own_sources_are_copied(spark: SparkSession, tmp_path: Path) -> None:
    files, seen = tmp_path / "words", list[str]()
    files.mkdir()

    def words(number: int, *lines: str) -> None:
        (files / f"{number}.txt").write_text("".join(f"{line}\n" for line in lines))

    def read(checkpoint: Path) -> list[str]:
        seen.clear()
        rows = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(files)).dropDuplicates(["value"])
        writer = rows.writeStream.foreachBatch(lambda batch, number: seen.extend(row.value for row in batch.collect()))
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        return sorted(seen)

    words(1, "a", "b")
    words(2, "b", "c")
    assert read(tmp_path / "checkpoint") == ["a", "b", "c"]
    back_up_checkpoint(str(tmp_path / "checkpoint"), str(tmp_path / "backup"))
    words(3, "c", "d")
    assert read(tmp_path / "checkpoint") == ["d"]
    restore_checkpoint(str(tmp_path / "backup"), str(tmp_path / "restored"))
    words(4, "a", "e")
    assert read(tmp_path / "restored") == ["d", "e"]
