"""Downloads jars from Maven Central, with the Ivy that comes with PySpark."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from scripts.brokers._broker import BrokerFailed

_CACHE = Path(__file__).parents[2] / ".build" / "brokers" / "ivy"
_ATTEMPTS = 3
SMALL_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of Java for a server of tests."""


def are_fetched(ivy_file: Path, jars: Path) -> bool:
    """Whether a folder has the jars that a file lists, in the required versions."""
    stamp = jars / "stamp"
    return stamp.exists() and stamp.read_text() == _wanted(ivy_file)


def fetch(
    name: str, ivy_file: Path, jars: Path, *, settings: Path | None = None, unpack: Callable[[], None] = lambda: None
) -> None:
    """Downloads the jars that a file lists into a folder, unless they are there.

    Args:
        name: Whose jars they are.
        ivy_file: The file.
        jars: The folder.
        settings: Ivy's settings; by default its own.
        unpack: Unpacks them.

    Raises:
        BrokerFailed: PySpark is not installed, or the jars cannot be downloaded.
    """
    if are_fetched(ivy_file, jars):
        return
    ivy = next(spark_jars(name).glob("ivy-*.jar"))
    print(f"brokers: fetches the jars of {name}, 50 to 100 MB", flush=True)
    shutil.rmtree(jars, ignore_errors=True)
    # Some poms give their jar the type "bundle".
    what: list[str | Path] = ["-ivy", ivy_file, "-types", "jar", "bundle", "tar.gz"]
    # Concurrent runs of Ivy cannot share a cache.
    where: list[str | Path] = ["-cache", _CACHE / name, "-retrieve", f"{jars}/[artifact]-[revision](-[classifier]).[ext]"]
    how: list[str | Path] = [] if settings is None else ["-settings", settings]
    command: list[str | Path] = [java(), "-jar", ivy, *how, *what, *where]
    for _ in range(_ATTEMPTS):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode == 0:
            unpack()
            (jars / "stamp").write_text(_wanted(ivy_file))
            return
    end = "\n".join(done.stdout.splitlines()[-15:])
    raise BrokerFailed(f"{name}: its jars cannot be fetched from Maven Central; run it again once it is reachable:\n{end}")


def spark_jars(name: str) -> Path:
    """Returns the folder of PySpark's own jars.

    Raises:
        BrokerFailed: PySpark is not installed.
    """
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise BrokerFailed(f"{name}: its jars are fetched with PySpark's, which is not there; run: make setup-dev")
    return Path(pyspark.origin).parent / "jars"


def java() -> str:
    """Returns the Java of JAVA_HOME, else the one in PATH."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def _wanted(ivy_file: Path) -> str:
    return hashlib.sha256(ivy_file.read_bytes()).hexdigest()
