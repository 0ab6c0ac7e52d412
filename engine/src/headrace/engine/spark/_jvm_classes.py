"""Compiles the engine's Java classes in the JVM of the driver, and adds them to the class paths of driver and executors."""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from headrace.contract.errors import HeadraceError
from headrace.engine._master import is_one_jvm

CHECKPOINTS = "headrace.engine.QuickCheckpoints"
"""The checkpoint file manager: it writes files in the fastest safe way for each file system."""
APPLICATION_SINK = "headrace.engine.ApplicationSink"
NO_SHUFFLE = "headrace.engine.NoShuffle"
CLASSES = (
    "headrace.engine.CommitLogs",
    CHECKPOINTS,
    "headrace.engine.CheckpointFiles",
    "headrace.engine.ServingFiles",
    APPLICATION_SINK,
    NO_SHUFFLE,
)
"""The classes, each after those that it uses."""


def install(spark: SparkSession) -> None:
    """Makes `CLASSES` available in driver and executors.

    Raises:
        HeadraceError: The JVM cannot compile or load them.
    """
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        if not _is_known(loader):
            loader.addURL(jvm.java.io.File(str(_jar(jvm, loader))).toURI().toURL())
        if not is_one_jvm(str(spark.sparkContext.master)):
            # Executors fetch it from the driver before their first task, including those that join later.
            spark.sparkContext._jsc.addJar(_jar_of(jvm, loader))
    except Py4JError as error:
        raise HeadraceError(f"this JVM cannot load the engine's Java classes: {error}") from None


def _is_known(loader: Any) -> bool:
    return loader.getResource(_file(CLASSES[-1])) is not None


def _jar_of(jvm: Any, loader: Any) -> str:
    """The jar that contains the classes, possibly from an earlier session of this process."""
    return str(jvm.java.io.File(loader.getResource(_file(CLASSES[-1])).openConnection().getJarFileURL().toURI()).getPath())


def _jar(jvm: Any, loader: Any) -> Path:
    """The path of a jar with the classes. It is kept in the environment, since to compile takes a tenth of a session's start."""
    sources = [files("headrace.engine.spark").joinpath(f"{name.rpartition('.')[2]}.java").read_text() for name in CLASSES]
    digest = hashlib.sha256("\0".join([pyspark.__version__, *sources]).encode()).hexdigest()[:16]
    kept = Path(sys.prefix, f"headrace-engine-{digest}.jar")
    if kept.exists():
        return kept
    # Spark deletes it when the JVM ends.
    folder = Path(jvm.org.apache.spark.util.Utils.createTempDir(tempfile.gettempdir(), "headrace").toString())
    compiled = folder / "headrace-engine.jar"
    _compile(jvm, loader, sources, compiled)
    try:
        new = kept.with_suffix(f".{os.getpid()}")
        shutil.copyfile(compiled, new)
        new.replace(kept)
    except OSError:
        # An environment that this user may not change.
        return compiled
    return kept


def _compile(jvm: Any, loader: Any, sources: Sequence[str], jar: Path) -> None:
    with ZipFile(jar, "w") as archive:
        for source in sources:
            # Spark includes this compiler for its code generation.
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(loader)
            compiler.cook(source)
            loader, compiled = compiler.getClassLoader(), compiler.getBytecodes()
            for each in compiled.keySet().toArray():
                archive.writestr(_file(each), bytes(compiled.get(each)))


def _file(name: str) -> str:
    return name.replace(".", "/") + ".class"
