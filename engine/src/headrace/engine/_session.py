"""Registers the source and the sink with Spark, and makes sessions with the settings that make micro-batches quick."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark import SparkConf
from pyspark.sql import SparkSession

from headrace.engine._checkpoints import CLASS, install
from headrace.engine._class_archive import OPTIONS, class_archive, use
from headrace.engine._gateway_options import DEFAULT_GATEWAY, Defaults
from headrace.engine._listener import watch_queries
from headrace.engine._source import HeadraceSource
from headrace.engine._state_format import SETTING
from headrace.engine.pipelines._plan import Plan

_CHECKPOINT_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_STATE_STORE_SETTING = "spark.sql.streaming.stateStore.providerClass"
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

QUICK_SETTINGS = {
    # A checkpoint entry is written by rename, as on HDFS, without the detour of FileContext and its four forked processes.
    _CHECKPOINT_SETTING: _CHECKPOINTS,
    "spark.python.unix.domain.socket.enabled": "true",
    _STATE_STORE_SETTING: _STATE_STORE,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # The commit log says which attempt's files count, so that those of another attempt at the same batch do no harm.
    SETTING: "2",
    # Its workers live on, with the states that they hold, when there is nothing to do for a while.
    "spark.python.daemon.module": "headrace.engine._daemon",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_WORKER_PYTHON = Path(__file__).with_name("_worker_python.sh")
"""Starts Spark's Python processes in half the time."""
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # What is shuffled stays on this machine, most of it in memory.
    "spark.shuffle.compress": "false",
}
_QUICK_START = "-XX:TieredStopAtLevel=1"


def register(spark: SparkSession, plans: Mapping[str, Plan] | None = None) -> None:
    """Makes `format("headrace")` known to a session, and watches its queries; once for each session.

    Takes the defaults of the options `gateway` and `token` from HEADRACE_GATEWAY and HEADRACE_TOKEN, and that of `readTasks`
    from the session's parallelism.

    Args:
        spark: The session.
        plans: The applications whose queries start next, by name.
    """
    defaults = Defaults(
        gateway=os.environ.get("HEADRACE_GATEWAY") or DEFAULT_GATEWAY,
        token=os.environ.get("HEADRACE_TOKEN") or None,
        read_tasks=max(1, spark.sparkContext.defaultParallelism),
    )
    # A class of its own carries the defaults to the processes in which Spark makes the source.
    known = {"defaults": defaults, "registered": True, "plans": dict(plans or {})}
    spark.dataSource.register(type("RegisteredHeadraceSource", (HeadraceSource,), known))
    watch_queries(spark, defaults)


def build_session(
    app_name: str,
    master: str | None = None,
    conf: Mapping[str, str | int | bool] | None = None,
    *,
    quick_start: bool = False,
) -> SparkSession:
    """A session, registered, with the settings that make micro-batches quick.

    Args:
        app_name: The name of the application, as Spark shows it.
        master: Spark's master; the one that spark-submit was given where there is one, else `local[*]`.
        conf: Further settings of Spark, which go before those of this function: `{"spark.ui.enabled": True}`.
        quick_start: Whether a JVM of this machine compiles quickly and does not optimise. It takes half the processor time to
            come up, and loses nothing where the work is Python's, as an application's is. Spark's own operators take a third
            longer for ever.
    """
    master = master or SparkConf().get("spark.master") or "local[*]"
    _choose_python(master)
    settings = dict(QUICK_SETTINGS)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= _LOCAL | {OPTIONS: " ".join([*use(class_archive()), *([_QUICK_START] if quick_start else [])])}
    given = {name: _text(value) for name, value in (conf or {}).items()}
    if given.get(_STATE_STORE_SETTING, _STATE_STORE) != _STATE_STORE:
        # Other state stores know no such format.
        del settings[SETTING]
    settings |= given
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if settings[_CHECKPOINT_SETTING] == _CHECKPOINTS and install(spark):
        spark.conf.set(_CHECKPOINT_SETTING, CLASS)
    register(spark)
    return spark


def _choose_python(master: str) -> None:
    """Has Spark run the Python of this process, where the environment names no other one."""
    # Spark looks for data sources with the first one, and does all else with the second.
    names = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
    if any(os.environ.setdefault(name, sys.executable) not in (sys.executable, str(_WORKER_PYTHON)) for name in names):
        return
    beside = Path(pyspark.__file__).parent
    if master.startswith("local") and os.access(_WORKER_PYTHON, os.X_OK) and Path(os.environ.get("SPARK_HOME", beside)) == beside:
        os.environ |= {**dict.fromkeys(names, str(_WORKER_PYTHON)), "HEADRACE_WORKER_PYTHON": sys.executable}


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
