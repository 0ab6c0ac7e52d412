"""Registers the source and the sink with Spark, and makes sessions with the settings that make micro-batches quick."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from headrace.engine._checkpoints import CLASS, install
from headrace.engine._class_archive import OPTIONS, class_archive, use
from headrace.engine._classic import refuse_connect
from headrace.engine._gateway_options import DEFAULT_GATEWAY, Defaults
from headrace.engine._listener import watch_queries
from headrace.engine._master import is_this_machine
from headrace.engine._source import HeadraceSource
from headrace.engine._state_format import SETTING
from headrace.engine._submission import MASTER, has_jvm, jvm_settings, settings_before_jvm, spark_home
from headrace.engine.pipelines._plan import Plan

_CHECKPOINT_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
_STATE_STORE_SETTING = "spark.sql.streaming.stateStore.providerClass"
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

QUICK_SETTINGS = {
    "spark.python.unix.domain.socket.enabled": "true",
    _STATE_STORE_SETTING: _STATE_STORE,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # The commit log says which attempt's files count, so that those of another attempt at the same batch do no harm.
    SETTING: "2",
    # Its workers live on, with the states that they hold, when there is nothing to do for a while.
    "spark.python.daemon.module": "headrace.engine._daemon",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
}
_WORKER_PYTHON = Path(__file__).with_name("_worker_python.sh")
"""Starts Spark's Python processes in half the time."""
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # What is shuffled stays on this machine, most of it in memory.
    "spark.shuffle.compress": "false",
}
_AT_START = {"spark.ui.showConsoleProgress": "false"}
"""What a JVM is told when it starts: it would have a value of its own afterwards."""
_DEFAULT_MASTER = "local[*]"
_PYTHONS = {"PYSPARK_DRIVER_PYTHON": "spark.pyspark.driver.python", "PYSPARK_PYTHON": "spark.pyspark.python"}
"""Spark looks for data sources with the first one, and does all else with the second."""
_QUICK_START = "-XX:TieredStopAtLevel=1"


def register(spark: SparkSession, plans: Mapping[str, Plan] | None = None) -> None:
    """Makes `format("headrace")` known to a session, and watches its queries; once for each session.

    Takes the defaults of the options `gateway` and `token` from HEADRACE_GATEWAY and HEADRACE_TOKEN, and that of `readTasks`
    from the session's parallelism.

    Args:
        spark: The session.
        plans: The applications whose queries start next, by name.

    Raises:
        HeadraceError: it is a session of Spark Connect, whose queries nobody here could watch.
    """
    refuse_connect(spark)
    defaults = defaults_in(spark)
    # A class of its own carries the defaults to the processes in which Spark makes the source.
    known = {"defaults": defaults, "registered": True, "plans": dict(plans or {})}
    spark.dataSource.register(type("RegisteredHeadraceSource", (HeadraceSource,), known))
    watch_queries(spark, defaults)


def defaults_in(spark: SparkSession) -> Defaults:
    """What holds in a session for options that are not given."""
    return Defaults(
        gateway=os.environ.get("HEADRACE_GATEWAY") or DEFAULT_GATEWAY,
        token=os.environ.get("HEADRACE_TOKEN") or None,
        read_tasks=max(1, spark.sparkContext.defaultParallelism),
        master=str(spark.sparkContext.master),
    )


def build_session(
    app_name: str,
    master: str | None = None,
    conf: Mapping[str, str | int | bool] | None = None,
    *,
    quick_start: bool = False,
) -> SparkSession:
    """A session, registered, with the settings that make micro-batches quick.

    What Spark is told from outside the program stays as it is: by spark-submit's `--master` and `--conf`, by PYSPARK_SUBMIT_ARGS,
    by spark-defaults.conf. This function only sets what is unset.

    Args:
        app_name: The name of the application, as Spark shows it.
        master: Spark's master; None for the one that Spark is told, else `local[*]`.
        conf: Further settings of Spark, which go before all others: `{"spark.ui.enabled": True}`.
        quick_start: Whether a JVM of this machine compiles quickly and does not optimise. It takes half the processor time to
            come up, and loses nothing where the work is Python's, as an application's is. Spark's own operators take a third
            longer for ever.
    """
    given = {name: _text(value) for name, value in (conf or {}).items()}
    if master is not None:
        given[MASTER] = master
    if not has_jvm():
        _start_jvm(given, settings_before_jvm(), quick_start)
    told = jvm_settings()
    master = given.get(MASTER) or told.get(MASTER) or _DEFAULT_MASTER
    _choose_python({**told, **given}, is_this_machine(master))
    quick = QUICK_SETTINGS | (_LOCAL if is_this_machine(master) else {})
    if {**told, **given}.get(_STATE_STORE_SETTING, _STATE_STORE) != _STATE_STORE:
        # Other state stores know no such format.
        del quick[SETTING]
    unset = {name: value for name, value in quick.items() if name not in told}
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in {**unset, **given}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if _CHECKPOINT_SETTING not in {**told, **given} and install(spark):
        spark.conf.set(_CHECKPOINT_SETTING, CLASS)
    register(spark)
    return spark


def _start_jvm(given: Mapping[str, str], outside: Mapping[str, str], quick_start: bool) -> None:
    """Starts the JVM of this process, with what it can only be told then.

    Args:
        given: The settings of the program.
        outside: Those that it will have anyway.
        quick_start: Whether it compiles quickly, where it does the work itself.
    """
    expected = {**outside, **given}
    local = is_this_machine(expected.get(MASTER, _DEFAULT_MASTER))
    _choose_python(expected, local)
    at_start = dict(_AT_START)
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        at_start[OPTIONS] = " ".join([*use(class_archive()), *([_QUICK_START] if quick_start else [])])
    settings = {name: value for name, value in at_start.items() if name not in outside} | dict(given)
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(list(settings.items())))


def _choose_python(settings: Mapping[str, str], local: bool) -> None:
    """Has Spark run the Python of this process, where neither its settings nor the environment name another one.

    Args:
        settings: Spark's settings.
        local: Whether all of it runs on this machine.
    """
    for name, setting in _PYTHONS.items():
        if setting in settings:
            os.environ[name] = settings[setting]
    quick, mine = str(_WORKER_PYTHON), {sys.executable, str(_WORKER_PYTHON)}
    unset = [name for name in _PYTHONS if os.environ.get(name, quick) in mine]
    if local and len(unset) == len(_PYTHONS) and os.access(quick, os.X_OK) and spark_home() == Path(pyspark.__file__).parent:
        os.environ |= {**dict.fromkeys(_PYTHONS, quick), "HEADRACE_WORKER_PYTHON": sys.executable}
    else:
        os.environ |= dict.fromkeys(unset, sys.executable)


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
