"""An archive of the classes that Spark loads: Java maps it into memory instead of parsing and verifying them at each start.

This is Java's application class-data sharing, in a dynamic archive (JEP 350): the JVM of a typical job writes the classes that it
has loaded when it exits. Java ignores an archive that was made by another version of Java, or from other jars.
"""

import sys
from pathlib import Path

import pyspark

OPTIONS = "spark.driver.defaultJavaOptions"
"""Spark's setting for Java options before the user's own."""
# With all its subjects: a warning of one, that an archive could not be mapped, would be printed to standard output.
_QUIET = "-Xlog:cds*=off"


def class_archive() -> Path:
    """The path of the archive for this Python's PySpark, in the environment, which may not exist yet."""
    return Path(sys.prefix, f"headrace-spark-{pyspark.__version__}.jsa")


def use(archive: Path) -> list[str]:
    """The Java options that make a JVM use an archive; empty if the archive does not exist."""
    return [f'"-XX:SharedArchiveFile={archive}"', _QUIET] if archive.exists() else []


def write_at_exit(archive: Path) -> dict[str, str]:
    """The setting that makes a session's JVM write an archive of the classes that it has loaded when it exits."""
    return {OPTIONS: f'"-XX:ArchiveClassesAtExit={archive}" {_QUIET}'}
