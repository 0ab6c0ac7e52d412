"""Registers the data source with Spark, and creates sessions with settings for fast micro-batches.

Where Spark's JVM has ended before it was ready, the error gives the reason: what it printed, or what this machine lacks.
"""

import logging
import os
import resource
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from headrace.contract.errors import HeadraceError
from headrace.contract.limits import DEFAULT_GATEWAY
from headrace.contract.settings import GATEWAY, TLS_CA, TLS_CERT, TLS_KEY, TOKEN, TOKEN_FILE, Setting
from headrace.contract.token_files import TokenFile
from headrace.engine.master import is_this_machine, refuse_connect
from headrace.engine.spark.causes import is_full
from headrace.engine.spark.class_archive import OPTIONS, class_archive, use
from headrace.engine.spark.format import Application, HeadraceSource
from headrace.engine.spark.heartbeats import driver_id
from headrace.engine.spark.jvm_classes import use_checkpoints
from headrace.engine.spark.listener import watch_queries
from headrace.engine.spark.masters import YARN, require_reachable
from headrace.engine.spark.quiet import last_lines, launch_quietly, log_options
from headrace.engine.spark.submission import MASTER, has_jvm, jvm_settings, settings_before_jvm, spark_home
from headrace.engine.spark.versions import require_supported
from headrace.engine.wire.gateway_options import Defaults
from headrace.logs.output import is_verbose
from headrace.machine.resources import REMEDY, in_use, limit
from headrace.machine.traces import last_words_of_jvm

require_supported()

log = logging.getLogger("headrace.engine")

_STATE_STORE_SETTING = "spark.sql.streaming.stateStore.providerClass"
_STATE_FORMAT_SETTING = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_SOCKETS_SETTING = "spark.python.unix.domain.socket.enabled"

QUICK_SETTINGS = {
    _SOCKETS_SETTING: "true",
    _STATE_STORE_SETTING: _STATE_STORE,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # The commit log names the attempts whose files count, so files of another attempt at the same batch are harmless.
    _STATE_FORMAT_SETTING: "2",
    # A driver that is killed while it writes the first entry of a log leaves a file there. Its own number tells each run apart.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    # Idle workers stay alive, with the states that they cache.
    "spark.python.daemon.module": "headrace.engine.spark.daemon",
    # A task whose worker has died tells what it was processing, and where in the code it crashed.
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
}
_WORKER_PYTHON = Path(__file__).with_name("worker_python.sh")
"""A script that starts Spark's Python processes in half the time."""
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Shuffled data stays on this machine, most of it in memory.
    "spark.shuffle.compress": "false",
}
_AT_START = {"spark.ui.showConsoleProgress": "false"}
"""Settings that take effect only at the start of a JVM, which otherwise has its own values."""
_DEFAULT_MASTER = "local[*]"
_PYTHONS = {"PYSPARK_DRIVER_PYTHON": "spark.pyspark.driver.python", "PYSPARK_PYTHON": "spark.pyspark.python"}
"""Spark looks up data sources with the first one, and does everything else with the second."""
_QUICK_START = "-XX:TieredStopAtLevel=1"


def register(spark: SparkSession, applications: Mapping[str, Application] | None = None) -> None:
    """Registers `format("headrace")` with a session, and monitors the session's queries. Call it once for each session.

    Queries that start from now on write their checkpoints with Headrace's file manager, which calls the one that the session has
    in `spark.sql.streaming.checkpointFileManagerClass`, if any: each entry of a commit log names the run that wrote it.

    HEADRACE_GATEWAY, HEADRACE_TOKEN, HEADRACE_TOKEN_FILE, HEADRACE_TLS_CA, HEADRACE_TLS_CERT and HEADRACE_TLS_KEY are the
    defaults of the options of these names, such as `tlsCa`, and the session's parallelism is the default of `readTasks`.

    Args:
        spark: The session.
        applications: The applications whose queries start next, by name.

    Raises:
        HeadraceError: It is a Spark Connect session, whose queries cannot be monitored from this process.
    """
    refuse_connect(spark)
    try:
        use_checkpoints(spark)
    except HeadraceError as error:
        log.info("Spark's own manager writes the files of checkpoints: %s", error)
    defaults = defaults_in(spark)
    # A new class passes the defaults to the processes in which Spark creates the source.
    known = {"defaults": defaults, "registered": True, "applications": dict(applications or {})}
    spark.dataSource.register(type("RegisteredHeadraceSource", (HeadraceSource,), known))
    watch_queries(spark, defaults)


def defaults_in(spark: SparkSession) -> Defaults:
    """The defaults of options in a session."""
    return Defaults(
        gateway=os.environ.get(GATEWAY.variable) or DEFAULT_GATEWAY,
        token=os.environ.get(TOKEN.variable) or None,
        token_file=TokenFile(file) if (file := _file_in(TOKEN_FILE)) is not None else None,
        tls_ca=_file_in(TLS_CA),
        tls_cert=_file_in(TLS_CERT),
        tls_key=_file_in(TLS_KEY),
        read_tasks=max(1, spark.sparkContext.defaultParallelism),
        master=str(spark.sparkContext.master),
        driver=driver_id(),
    )


def _file_in(setting: Setting) -> Path | None:
    """Returns the file that the variable of a setting names, whatever the working folder of other processes is."""
    file = os.environ.get(setting.variable)
    return Path(file).absolute() if file else None


def build_session(
    app_name: str,
    master: str | None = None,
    conf: Mapping[str, str | int | bool] | None = None,
    *,
    quick_start: bool = False,
    quiet: bool = False,
) -> SparkSession:
    """Creates a session with settings for fast micro-batches, and registers it.

    Settings from outside the program, from spark-submit's `--master` and `--conf`, PYSPARK_SUBMIT_ARGS or spark-defaults.conf,
    are not changed. This function only sets what is unset.

    Args:
        app_name: The name of the application in Spark.
        master: Spark master URL; None for the one from outside the program, else `local[*]`.
        conf: Further Spark settings, which take precedence over all others: `{"spark.ui.enabled": True}`.
        quick_start: Whether a local JVM uses only its fast compiler. The start then takes half the processor time, and nothing
            is lost if the work is done in Python, as in applications. Spark's own operators take a third longer.
        quiet: Whether a JVM that is started here logs only errors, except errors that a query raises, which the program should
            show. Your own log4j configuration takes precedence. Everything is logged if HEADRACE_VERBOSE is set to `1`.

    Raises:
        OptionError: The master is YARN or Kubernetes, and what Spark needs to connect to it is missing.
        HeadraceError: There already is a Spark Connect session in this process.
    """
    spark = create_session(app_name, master, conf, quick_start=quick_start, quiet=quiet)
    register(spark)
    return spark


def create_session(
    app_name: str,
    master: str | None = None,
    conf: Mapping[str, str | int | bool] | None = None,
    *,
    quick_start: bool = False,
    quiet: bool = False,
) -> SparkSession:
    """As `build_session`, but registers nothing.

    Raises:
        OptionError: The master is YARN or Kubernetes, and what Spark needs to connect to it is missing.
        HeadraceError: Spark's JVM cannot be started.
    """
    given = {name: _text(value) for name, value in (conf or {}).items()}
    if master is not None:
        given[MASTER] = master
    if not has_jvm():
        _start_jvm(given, settings_before_jvm(), quick_start, quiet and not is_verbose())
    told = jvm_settings()
    master = given.get(MASTER) or told.get(MASTER) or _DEFAULT_MASTER
    _choose_python({**told, **given}, is_this_machine(master))
    quick = quick_settings(master, {**told, **given})
    unset = {name: value for name, value in quick.items() if name not in told}
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in {**unset, **given}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def quick_settings(master: str, chosen: Mapping[str, str]) -> dict[str, str]:
    """The settings for fast micro-batches.

    Args:
        master: Spark's master URL.
        chosen: The settings that others have chosen, on which some of these depend.
    """
    quick = QUICK_SETTINGS | (_LOCAL if is_this_machine(master) else {})
    if chosen.get(_STATE_STORE_SETTING, _STATE_STORE) != _STATE_STORE:
        # Other state stores do not have this format.
        del quick[_STATE_FORMAT_SETTING]
    if master == YARN:
        # Spark would create the sockets in the folder of a container, whose path is longer than the path of a socket may be.
        del quick[_SOCKETS_SETTING]
    return quick


def _start_jvm(program: Mapping[str, str], outside: Mapping[str, str], quick_start: bool, quiet: bool) -> None:
    """Starts the JVM of this process, with the settings that take effect only at its start.

    Args:
        program: The settings of the program.
        outside: The settings from outside the program.
        quick_start: Whether the JVM uses only its fast compiler, if it is local.
        quiet: Whether the JVM logs only errors.
    """
    expected = {**outside, **program}
    require_reachable(expected.get(MASTER, _DEFAULT_MASTER), expected)
    local = is_this_machine(expected.get(MASTER, _DEFAULT_MASTER))
    _choose_python(expected, local)
    at_start = dict(_AT_START)
    options = log_options(expected) if quiet else []
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        options += [*use(class_archive()), *([_QUICK_START] if quick_start else [])]
    if local or options:
        at_start[OPTIONS] = " ".join(options)
    settings = {name: value for name, value in at_start.items() if name not in outside} | dict(program)
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    last_lines.clear()
    try:
        SparkContext._ensure_initialized(gateway=launch_quietly(conf) if quiet else None, conf=conf)
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise HeadraceError(f"Spark's JVM has ended before it was ready: {why_exited(last_lines)}") from error
    except OSError as error:
        raise HeadraceError(f"Spark's JVM cannot be started: {error}; {why_exited(last_lines)}") from error


def _choose_python(settings: Mapping[str, str], local: bool) -> None:
    """Makes Spark use the Python of this process, unless its settings or the environment name another one.

    Args:
        settings: Spark's settings.
        local: Whether driver and executors run on this machine.
    """
    for name, setting in _PYTHONS.items():
        if setting in settings:
            os.environ[name] = settings[setting]
    quick = str(_WORKER_PYTHON)
    unset = [name for name in _PYTHONS if _is_own_python(os.environ.get(name, quick))]
    if local and len(unset) == len(_PYTHONS) and os.access(quick, os.X_OK) and spark_home() == Path(pyspark.__file__).parent:
        os.environ |= {**dict.fromkeys(_PYTHONS, quick), "HEADRACE_WORKER_PYTHON": sys.executable}
    else:
        os.environ |= dict.fromkeys(unset, sys.executable)


def _is_own_python(python: str) -> bool:
    """Whether this Python is the default: the Python of this process, or the script of the process that has started this one.

    That process may run Headrace from another environment.
    """
    return python == sys.executable or Path(python).parts[-4:] == _WORKER_PYTHON.parts[-4:]


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_MIN_DESCRIPTORS = 64
_JVM_DESCRIPTORS = 512
"""How many descriptors the JVM needs: it opens each of Spark's archives, which are about 280."""


def why_exited(printed: Sequence[str]) -> str:
    """Returns why the JVM has ended, for people.

    Args:
        printed: The last lines that it has printed, the newest last.
    """
    lacks = jvm_lacks()
    said = last_words_of_jvm(printed)
    return "; ".join(text for text in (lacks, said and f"it has printed: {said}") if text) or (
        "it has printed nothing; run headrace doctor, which starts Java and looks for what this machine lacks"
    )


def jvm_lacks() -> str:
    """Returns what this process or its machine lacks for a JVM; empty if it seems to lack nothing."""
    home = os.environ.get("JAVA_HOME")
    if home and not os.access(os.path.join(home, "bin", "java"), os.X_OK):
        return f"JAVA_HOME is {home}, where no bin/java can be run: set it to the folder of a JDK 17 or newer, or unset it"
    used, most = in_use(), limit()
    if most is not None and most - used < _MIN_DESCRIPTORS:
        return f"{used} of {most} descriptors of this process are in use: {REMEDY}"
    _, max_of_jvm = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Java raises its own limit as far as it may.
    if max_of_jvm != resource.RLIM_INFINITY and max_of_jvm < _JVM_DESCRIPTORS:
        return f"Spark's JVM may have {max_of_jvm} descriptors at most, and needs {_JVM_DESCRIPTORS}: {REMEDY}"
    folder = tempfile.gettempdir()
    return f"{folder} has no room left" if is_full(folder) else ""
