"""Registers the source and the sink with Spark, and makes sessions with the settings that make micro-batches quick."""

import os
import sys
from collections.abc import Mapping

from pyspark import SparkConf
from pyspark.sql import SparkSession

from headrace.engine._checkpoints import CLASS, install
from headrace.engine._gateway_options import DEFAULT_GATEWAY, Defaults
from headrace.engine._listener import watch_queries
from headrace.engine._source import HeadraceSource

_CHECKPOINT_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

QUICK_SETTINGS = {
    # A checkpoint entry is written by rename, as on HDFS, without the detour of FileContext and its four forked processes.
    _CHECKPOINT_SETTING: _CHECKPOINTS,
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": _STATE_STORE,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def register(spark: SparkSession) -> None:
    """Makes `format("headrace")` known to a session, and watches its queries; once for each session.

    Takes the defaults of the options `gateway` and `token` from HEADRACE_GATEWAY and HEADRACE_TOKEN, and that of `readTasks`
    from the session's parallelism.
    """
    defaults = Defaults(
        gateway=os.environ.get("HEADRACE_GATEWAY") or DEFAULT_GATEWAY,
        token=os.environ.get("HEADRACE_TOKEN") or None,
        read_tasks=max(1, spark.sparkContext.defaultParallelism),
    )
    # A class of its own carries the defaults to the processes in which Spark makes the source.
    spark.dataSource.register(type("RegisteredHeadraceSource", (HeadraceSource,), {"defaults": defaults, "registered": True}))
    watch_queries(spark, defaults)


def build_session(app_name: str, master: str | None = None, conf: Mapping[str, str | int | bool] | None = None) -> SparkSession:
    """A session, registered, with the settings that make micro-batches quick.

    Args:
        app_name: The name of the application, as Spark shows it.
        master: Spark's master; the one that spark-submit was given where there is one, else `local[*]`.
        conf: Further settings of Spark, which go before those of this function: `{"spark.ui.enabled": True}`.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    master = master or SparkConf().get("spark.master") or "local[*]"
    settings = dict(QUICK_SETTINGS)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= _LOOPBACK
    settings |= {name: _text(value) for name, value in (conf or {}).items()}
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if settings[_CHECKPOINT_SETTING] == _CHECKPOINTS and install(spark):
        spark.conf.set(_CHECKPOINT_SETTING, CLASS)
    register(spark)
    return spark


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
