"""Checkpoints that are written in the way that suits the file system that they lie on."""

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
    """Makes the checkpoint file manager `CLASS` known to driver and executors; False where that cannot be done."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        if not _is_known(loader):
            loader.addURL(jvm.java.io.File(_compiled(jvm, loader)).toURI().toURL())
        if not is_one_jvm(str(spark.sparkContext.master)):
            # Executors fetch it from the driver before their first task, also those that join later.
            spark.sparkContext._jsc.addJar(_jar_of(jvm, loader))
        return _is_known(loader)
    except Py4JError as error:
        log.info("checkpoints are written in Spark's own way: %s", error)
        return False


def _is_known(loader: Any) -> bool:
    return loader.getResource(_CLASS_FILE) is not None


def _jar_of(jvm: Any, loader: Any) -> str:
    """The jar that the class was found in: that of an earlier session of this process, perhaps."""
    return str(jvm.java.io.File(loader.getResource(_CLASS_FILE).openConnection().getJarFileURL().toURI()).getPath())


def _compiled(jvm: Any, loader: Any) -> str:
    """A jar that has the class."""
    # Spark brings the compiler along, for the code that it makes of its plans.
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(files("headrace.engine").joinpath("QuickCheckpoints.java").read_text())
    compiled = compiler.getBytecodes()
    # Spark deletes it when the JVM ends.
    folder = Path(jvm.org.apache.spark.util.Utils.createTempDir(tempfile.gettempdir(), "headrace").toString())
    jar = folder / "headrace-checkpoints.jar"
    with ZipFile(jar, "w") as archive:
        for name in compiled.keySet().toArray():
            archive.writestr(name.replace(".", "/") + ".class", bytes(compiled.get(name)))
    return str(jar)
