"""An archive of the classes that Spark loads: Java maps it, and need not read, parse and check them anew at each start.

It is Java's own "application class-data sharing" (JEP 310). Java takes no notice of an archive that another Java made, or
that holds classes of other jars.
"""

import sys
from pathlib import Path

import pyspark

OPTIONS = "spark.driver.defaultJavaOptions"
"""The setting of Spark that has Java's options, before those that a user gives."""
_QUIET = "-Xlog:cds=off"


def class_archive() -> Path:
    """Where the archive for this Python's PySpark is, or would be: it is removed with the environment that it belongs to."""
    return Path(sys.prefix, f"headrace-spark-{pyspark.__version__}.jsa")


def use(archive: Path) -> list[str]:
    """The options with which a session's JVM starts from an archive; none where there is no such archive."""
    return [f'"-XX:SharedArchiveFile={archive}"', _QUIET] if archive.exists() else []


def list_classes(file: Path) -> dict[str, str]:
    """The setting with which a session's JVM lists the classes that it loads, which is whole once the JVM has ended."""
    return {OPTIONS: f'"-XX:DumpLoadedClassList={file}"'}


def archive_command(java_home: str, classpath: str, classes: Path, archive: Path) -> list[str]:
    """The command that makes an archive of listed classes; the class path is to be that of the JVM that listed them."""
    java = str(Path(java_home, "bin", "java"))
    files = [f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={archive}"]
    return [java, "-Xshare:dump", *files, _QUIET, "-cp", classpath]
