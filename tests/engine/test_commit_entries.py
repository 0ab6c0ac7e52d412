"""Entries of commit logs name the run that wrote them, and a run that was replaced writes none; on Spark."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from tests.engine.frames import Message
from tests.fake_gateway.engine_sinks import FakeSinkGateway

from headrace.engine import register
from headrace.engine.checkpoint.folder import HadoopFolder
from headrace.engine.checkpoint.runs import drop_unnamed_entries

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
SPARKS_OWN = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"


def messages(first: int, last: int) -> list[Message]:
    return [Message(i, b"value-%d" % i) for i in range(first, last + 1)]


@pytest.fixture
def gateway() -> Iterator[FakeSinkGateway]:
    gateway = FakeSinkGateway().start()
    yield gateway
    gateway.stop()


@pytest.fixture(params=["QuickCheckpoints", "NamedCheckpoints"])
def manager(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """The session's manager of checkpoints: Headrace's own, and the user's."""
    before = spark.conf.get(MANAGER)
    if request.param == "NamedCheckpoints":
        spark.conf.set(MANAGER, SPARKS_OWN)
        register(spark)
        register(spark)
    yield f"headrace.engine.{request.param}"
    spark.conf.set(MANAGER, before)


class Checkpoint:
    """A checkpoint, as the driver's JVM writes it."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._jvm: Any = spark._jvm
        self.path = path
        (path / "commits").mkdir(parents=True)
        (path / "headrace" / "runs").mkdir(parents=True)
        self._configuration = spark._jsparkSession.sessionState().newHadoopConf()
        managers = self._jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
        self.manager = managers.create(self._jvm.org.apache.hadoop.fs.Path(f"file:{path}"), self._configuration)
        self.logs = self._jvm.headrace.engine.CommitLogs

    def entry(self, batch: int) -> Any:
        """The stream of a new entry of the commit log, which is there once the stream is closed."""
        stream = self.manager.createAtomic(self._jvm.org.apache.hadoop.fs.Path(f"file:{self.path}/commits/{batch}"), False)
        stream.write(b"v1\n{}")
        return stream


@pytest.fixture
def checkpoint(spark: SparkSession, manager: str, tmp_path: Path) -> Iterator[Checkpoint]:
    checkpoint = Checkpoint(spark, tmp_path / "checkpoint")
    assert checkpoint.manager.getClass().getName() == manager
    yield checkpoint
    for run in "abc":
        checkpoint.logs.end(f"file:{checkpoint.path}", run)


def test_an_entry_names_its_run_and_a_run_that_was_replaced_writes_none(checkpoint: Checkpoint) -> None:
    url, runs = f"file:{checkpoint.path}", checkpoint.path / "headrace" / "runs"
    checkpoint.logs.begin(url, "b", 2, None)
    (runs / "1.a").touch()
    (runs / "2.b").touch()
    (runs / "2.0.b").touch()
    checkpoint.entry(0).close()
    assert (checkpoint.path / "commits" / "0").read_text().splitlines() == ["v1", "{}", '{"headraceRun":"b"}']
    entry = checkpoint.entry(1)
    # Another driver starts while this one has its votes.
    (runs / "3.c").touch()
    with pytest.raises(Py4JJavaError, match=r"another driver has started .* as run 3 \(c\); run 2 \(b\) ends"):
        entry.close()
    entry.cancel()
    assert not (checkpoint.path / "commits" / "1").exists()


def test_a_run_that_was_frozen_after_its_last_look_writes_no_entry_once_another_has_started(
    spark: SparkSession, checkpoint: Checkpoint
) -> None:
    checkpoint.entry(0).close()
    frozen = checkpoint.entry(1)
    # It does not look at the run log: it has done so before.
    drop_unnamed_entries(HadoopFolder(spark, f"file:{checkpoint.path}/commits"))
    with pytest.raises(Py4JJavaError):
        frozen.close()
    assert [path.name for path in (checkpoint.path / "commits").iterdir() if not path.name.startswith(".")] == ["0"]
    checkpoint.entry(1).close()
    assert (checkpoint.path / "commits" / "1").read_text() == "v1\n{}"


def test_of_two_runs_that_write_an_entry_one_fails(checkpoint: Checkpoint) -> None:
    first, second = checkpoint.entry(0), checkpoint.entry(0)
    checkpoint.logs.begin(f"file:{checkpoint.path}", "a", 1, None)
    third = checkpoint.entry(0)
    first.close()
    for late in (second, third):
        with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
            late.close()
        late.cancel()
    assert (checkpoint.path / "commits" / "0").read_text() == "v1\n{}"
    assert [path.name for path in (checkpoint.path / "commits").iterdir() if not path.name.startswith(".")] == ["0"]


@pytest.mark.parametrize("version", ["1", "2"])
def test_spark_reads_what_it_has_written_with_the_name_of_the_run(
    spark: SparkSession, gateway: FakeSinkGateway, manager: str, tmp_path: Path, version: str
) -> None:
    path, runs, before = tmp_path / "checkpoint", [], spark.conf.get(FORMAT)
    spark.conf.set(FORMAT, version)
    for start in (1, 6):
        gateway.append("orders/0", messages(start, start + 4))
        source = {"gateway": gateway.address, "stream": "orders/*"}
        frame = spark.readStream.format("headrace").options(**source).load()
        writer = frame.writeStream.format("headrace").options(gateway=gateway.address, sink="alerts")
        query = writer.option("checkpointLocation", str(path)).trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        runs.append(str(query.runId))
    spark.conf.set(FORMAT, before)
    entries = [(path / "commits" / str(batch)).read_text().splitlines() for batch in (0, 1)]
    assert [json.loads(entry[2])["headraceRun"] for entry in entries] == runs
    assert {entry[0] for entry in entries} == {f"v{version}"}
    assert [row["value"] for n in (0, 1) for _, rows in sorted(gateway.batch(n).items()) for row in rows] == [
        m.value for m in messages(1, 10)
    ]
    gateway.wait_until(lambda: gateway.commit_reports[-1].committed == 1, "the last batch is reported")
    told = gateway.commit_reports[-1]
    assert [(s.run, s.first_batch, s.last_batch) for s in told.segments] == [(runs[0], 0, 0), (runs[1], 1, 1)]
