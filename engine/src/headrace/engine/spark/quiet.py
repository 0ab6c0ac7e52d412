"""Suppresses Spark's own output: its log, and what the JVM and Python workers print when they start and end.

The user's own log4j configuration takes precedence.
"""

import os
import sys
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from headrace.contract.printable import printable
from headrace.engine.spark.daemon import QUIET
from headrace.engine.spark.submission import spark_home
from headrace.machine.traces import is_of_a_trace

_CONFIGURATION = Path(__file__).with_name("quiet.log4j2.properties")
_JAVA_SETTINGS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
_JAVA_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "SPARK_SUBMIT_OPTS")
_LOG4J_VARIABLES = ("LOG4J_CONFIGURATION_FILE", "LOG4J2_CONFIGURATION_FILE")
_LAST_WORDS_S = 10.0
_STARTUP = (b"WARNING: Using incubator modules: jdk.incubator.vector", b"NOTE: Picked up JDK_JAVA_OPTIONS:")
"""Prefixes of lines that Java itself prints, before any setting takes effect."""
_is_passed_on = threading.Event()
"""Whether the output of the JVM and the workers is passed on to standard error."""


def log_options(settings: Mapping[str, str]) -> list[str]:
    """Returns the options of a JVM that only logs errors; empty if the user has configured log4j.

    Args:
        settings: The Spark settings of this JVM.
    """
    return [] if _has_configuration(settings) else [f'"-Dlog4j2.configurationFile={_CONFIGURATION.as_uri()}"']


def _has_configuration(settings: Mapping[str, str]) -> bool:
    options = [settings.get(name, "") for name in _JAVA_SETTINGS] + [os.environ.get(name, "") for name in _JAVA_VARIABLES]
    if any("log4j" in text for text in options) or any(os.environ.get(name) for name in _LOG4J_VARIABLES):
        return True
    folder = Path(os.environ.get("SPARK_CONF_DIR") or spark_home() / "conf")
    return any(file.suffix != ".template" for file in folder.glob("log4j2*"))


last_lines: deque[str] = deque(maxlen=20)
"""What the JVM has printed last, without the lines of traces, which may be many."""


def launch_quietly(conf: SparkConf) -> Any:
    """Starts the JVM of this process, and passes its output on to standard error, except for Java's startup messages.

    Returns:
        Py4J's connection to the JVM, which is untyped.
    """
    os.environ[QUIET] = "1"
    _is_passed_on.set()
    read, write = os.pipe()
    # It ends with the JVM, which ends with this process at the latest.
    printer = threading.Thread(target=_pass_on, args=(os.fdopen(read, "rb"),), name="stderr of Spark's JVM", daemon=True)
    printer.start()
    try:
        return launch_gateway(conf, {"stderr": write})  # type: ignore[no-untyped-call]
    except Exception:
        os.close(write)
        write = -1
        # The JVM has printed the reason.
        printer.join(_LAST_WORDS_S)
        raise
    finally:
        if write >= 0:
            os.close(write)


def discard_output(spark: SparkSession) -> None:
    """Discards all further output of Spark's processes, if the session is quiet.

    Call it before stopping, when the JVM and the workers report closed connections in various ways.
    """
    if not _is_passed_on.is_set():
        return
    _is_passed_on.clear()
    # This server runs in the driver's own process.
    spark.sparkContext._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]


def _pass_on(printed: IO[bytes]) -> None:
    with printed:
        for line in printed:
            text = line.decode(errors="replace")
            if not is_of_a_trace(text):
                last_lines.append(text)
            if _is_passed_on.is_set() and not line.startswith(_STARTUP):
                print(printable(text), end="", file=sys.stderr, flush=True)
