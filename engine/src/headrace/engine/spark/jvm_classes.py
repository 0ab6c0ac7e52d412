"""Adds the engine's Java classes to the class paths of driver and executors. Their sources are in `engine/java`."""

from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from headrace.contract.errors import HeadraceError
from headrace.engine.master import is_one_jvm

CHECKPOINTS = "headrace.engine.QuickCheckpoints"
"""The checkpoint file manager: it writes files in the fastest safe way for each file system."""
NAMED_CHECKPOINTS = "headrace.engine.NamedCheckpoints"
"""The same by a manager that the user has chosen."""
APPLICATION_SINK = "headrace.engine.ApplicationSink"
NO_SHUFFLE = "headrace.engine.NoShuffle"
SESSION_QUERIES = "headrace.engine.SessionQueries"
"""Finds the queries of sessions that Spark Connect creates."""
JAR = Path(__file__).with_name("headrace-engine.jar")
"""What `make jar` builds of them."""
_ONE_OF_THEM = CHECKPOINTS.replace(".", "/") + ".class"

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
"""The setting that names a session's checkpoint file manager."""
_CHOSEN_MANAGER = "spark.sql.headrace.checkpointFileManagerClass"
"""The setting in which `NamedCheckpoints` finds the user's manager."""


def use_checkpoints(spark: SparkSession) -> None:
    """Makes the commit logs of a session's queries name the runs that write them.

    Raises:
        HeadraceError: The classes cannot be loaded.
    """
    install(spark)
    chosen = spark.conf.get(MANAGER, None)
    for name, value in (chosen_manager(chosen) if chosen is not None else {MANAGER: CHECKPOINTS}).items():
        spark.conf.set(name, value)


def chosen_manager(chosen: str) -> dict[str, str]:
    """The settings by which commit logs name their runs, and the manager that the user has chosen writes the files."""
    if chosen in (CHECKPOINTS, NAMED_CHECKPOINTS):
        return {MANAGER: chosen}
    return {_CHOSEN_MANAGER: chosen, MANAGER: NAMED_CHECKPOINTS}


def install(spark: SparkSession) -> None:
    """Makes the classes available in driver and executors.

    Raises:
        HeadraceError: The jar is missing, or the JVM cannot load it.
    """
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        if loader.getResource(_ONE_OF_THEM) is None:
            if not JAR.is_file():
                raise HeadraceError(
                    f"{JAR} is missing: this installation of headrace-engine is incomplete; install it again, or run "
                    "`make jar` if it is a checkout"
                )
            loader.addURL(jvm.java.io.File(str(JAR)).toURI().toURL())
        if not is_one_jvm(str(spark.sparkContext.master)):
            # Executors fetch it from the driver before their first task, also executors that join later.
            spark.sparkContext._jsc.addJar(_jar_of(jvm, loader))
    except Py4JError as error:
        raise HeadraceError(f"this JVM cannot load the engine's Java classes: {error}") from None


def _jar_of(jvm: Any, loader: Any) -> str:
    """The jar that contains the classes, which may be one that the user has given to Spark."""
    return str(jvm.java.io.File(loader.getResource(_ONE_OF_THEM).openConnection().getJarFileURL().toURI()).getPath())
