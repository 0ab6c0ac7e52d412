import importlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

import headrace.engine
from headrace.engine.master import is_one_jvm
from headrace.engine.spark.session import quick_settings

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


def test_exports() -> None:
    assert {"build_session", "register", "SCHEMA", "HeadraceError"} <= set(headrace.engine.__all__)
    assert all(hasattr(headrace.engine, name) for name in headrace.engine.__all__)


def test_a_session_has_the_quick_settings(spark: SparkSession) -> None:
    assert spark.conf.get("spark.python.unix.domain.socket.enabled") == "true"
    assert spark.conf.get("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled") == "true"
    assert spark.conf.get("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart") == "false"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get(MANAGER) == "headrace.engine.QuickCheckpoints"


def test_containers_of_yarn_have_no_sockets_in_their_folders_whose_paths_are_too_long() -> None:
    sockets = "spark.python.unix.domain.socket.enabled"
    assert quick_settings("spark://host:7077", {})[sockets] == "true"
    assert sockets not in quick_settings("yarn", {})


def test_workers_run_this_python_with_the_pyspark_that_is_installed(spark: SparkSession) -> None:
    where = sql.udf(lambda _: f"{sys.executable} {importlib.import_module('pyspark').__file__}")
    found = spark.range(1).select(where("id")).collect()
    assert found[0][0] == f"{sys.executable} {pyspark.__file__}"


def _workers(spark: SparkSession, met: Path) -> set[psutil.Process]:
    """Runs two tasks, each of which waits for the other; returns the processes that ran them."""

    def task(number: int) -> int:
        (met / str(number)).touch()
        deadline = time.monotonic() + 60
        while len(list(met.iterdir())) < 2:
            assert time.monotonic() < deadline, "the other task has not begun"
            time.sleep(0.01)
        return os.getpid()

    met.mkdir()
    return {psutil.Process(pid) for pid in spark.sparkContext.parallelize(range(2), 2).map(task).collect()}


def test_workers_live_on_when_spark_has_closed_their_connections(spark: SparkSession, tmp_path: Path) -> None:
    """Spark does so after a minute without work; the states of applications are in these processes."""
    assert len(_workers(spark, tmp_path / "before")) == 2
    # Earlier tests may have left more than two idle workers, and any of them may run the tasks.
    before = set(psutil.Process().children(recursive=True))
    jvm: Any = spark._jvm
    threads = jvm.java.lang.Thread.getAllStackTraces().keySet().toArray()
    monitors = [thread for thread in threads if thread.getName().startswith("Idle Worker Monitor")]
    assert monitors
    for monitor in monitors:
        outer = monitor.getClass().getDeclaredField("$outer")
        outer.setAccessible(True)
        factory = outer.get(monitor)
        getattr(factory, "org$apache$spark$api$python$PythonWorkerFactory$$cleanupIdleWorkers")()
        assert factory.idleWorkers().isEmpty()
    assert _workers(spark, tmp_path / "after") <= before


@pytest.mark.parametrize(
    ("master", "one"),
    [("local", True), ("local[2]", True), ("local[*,4]", True), ("local-cluster[2,1,1024]", False), ("spark://host:7077", False)],
)
def test_which_executors_share_the_drivers_jvm_and_are_sent_no_class(master: str, one: bool) -> None:
    assert is_one_jvm(master) is one


def test_checkpoints_get_their_permissions_without_a_process(spark: SparkSession, tmp_path: Path) -> None:
    """The manager that the engine compiles does what Spark's own does."""
    jvm = spark._jvm
    assert jvm is not None
    path = jvm.org.apache.hadoop.fs.Path(str(tmp_path / "made" / "0"))
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    manager = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.create(path, configuration)
    assert loader.loadClass("headrace.engine.QuickCheckpoints").isInstance(manager)
    manager.mkdirs(path.getParent())
    stream = manager.createAtomic(path, True)
    stream.write(b"v1")
    stream.close()
    made = tmp_path / "made" / "0"
    assert made.read_bytes() == b"v1"
    umask = os.umask(0)
    os.umask(umask)
    assert made.stat().st_mode & 0o777 == 0o666 & ~umask
    assert (tmp_path / "made" / ".0.crc").exists()


def test_registering_again_takes_the_environment_over(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_GATEWAY", "nowhere")
    headrace.engine.register(spark)
    with pytest.raises(AnalysisException, match="HEADRACE_GATEWAY: 'nowhere'"):
        spark.readStream.format("headrace").option("stream", "orders/*").load()
    monkeypatch.delenv("HEADRACE_GATEWAY")
    headrace.engine.register(spark)
    assert spark.readStream.format("headrace").option("stream", "orders/*").load().schema == headrace.engine.SCHEMA
