"""Installs a checkpoint file manager that writes files in the fastest safe way for each file system."""

import logging
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from headrace.engine._master import is_one_jvm

CLASS = "headrace.engine.QuickCheckpoints"
_CLASS_FILE = CLASS.replace(".", "/") + ".class"

log = logging.getLogger("headrace.engine")


def install(spark: SparkSession) -> bool:
    """Adds the checkpoint file manager `CLASS` to the class paths of driver and executors; False if that is impossible."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        if not _is_known(loader):
            loader.addURL(jvm.java.io.File(_compiled(jvm, loader)).toURI().toURL())
        if not is_one_jvm(str(spark.sparkContext.master)):
            # Executors fetch it from the driver before their first task, including those that join later.
            spark.sparkContext._jsc.addJar(_jar_of(jvm, loader))
        return _is_known(loader)
    except Py4JError as error:
        log.info("checkpoints are written by Spark's default file manager: %s", error)
        return False


def _is_known(loader: Any) -> bool:
    return loader.getResource(_CLASS_FILE) is not None


def _jar_of(jvm: Any, loader: Any) -> str:
    """The jar that contains the class, possibly from an earlier session of this process."""
    return str(jvm.java.io.File(loader.getResource(_CLASS_FILE).openConnection().getJarFileURL().toURI()).getPath())


def _compiled(jvm: Any, loader: Any) -> str:
    """The path of a new jar with the compiled class."""
    # Spark includes this compiler for its code generation.
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(files("headrace.engine.spark").joinpath("QuickCheckpoints.java").read_text())
    compiled = compiler.getBytecodes()
    # Spark deletes it when the JVM ends.
    folder = Path(jvm.org.apache.spark.util.Utils.createTempDir(tempfile.gettempdir(), "headrace").toString())
    jar = folder / "headrace-checkpoints.jar"
    with ZipFile(jar, "w") as archive:
        for name in compiled.keySet().toArray():
            archive.writestr(name.replace(".", "/") + ".class", bytes(compiled.get(name)))
    return str(jar)
