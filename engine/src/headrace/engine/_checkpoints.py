"""Checkpoints on a local disk that do not fork a process for each file."""

import logging
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from headrace.engine._master import is_one_jvm

CLASS = "headrace.engine.QuickCheckpoints"

log = logging.getLogger("headrace.engine")


def install(spark: SparkSession) -> bool:
    """Makes the checkpoint file manager `CLASS` known to the JVM; False where that cannot be done.

    Only where driver and executors are one JVM: executors of their own would not know the class.
    """
    if not is_one_jvm(str(spark.sparkContext.master)):
        return False
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        return _is_known(loader) or _compile(jvm, loader)
    except Py4JError as error:
        log.info("checkpoints are written the slower way: %s", error)
        return False


def _is_known(loader: Any) -> bool:
    return loader.getResource(CLASS.replace(".", "/") + ".class") is not None


def _compile(jvm: Any, loader: Any) -> bool:
    # Spark brings the compiler along, for the code that it makes of its plans.
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(files("headrace.engine").joinpath("QuickCheckpoints.java").read_text())
    compiled = compiler.getBytecodes()
    # Spark deletes it when the JVM ends.
    root = Path(jvm.org.apache.spark.util.Utils.createTempDir(tempfile.gettempdir(), "headrace").toString())
    for name in compiled.keySet().toArray():
        file = root / (name.replace(".", "/") + ".class")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(compiled.get(name))
    loader.addURL(jvm.java.io.File(str(root)).toURI().toURL())
    return _is_known(loader)
