"""Checks of this machine: Python, Java, memory, disk."""

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

from headrace.contract.units import format_size
from headrace.doctor.finding import Finding, Site, failed, ok, warning
from headrace.processes import JavaMissing, find_java, require_java
from headrace.terminal import bytes_text

_OLDEST_PYTHON = (3, 11)
_TIMEOUT_S = 4.0
_ENOUGH_MEMORY, _MIN_MEMORY = 2 << 30, 768 << 20
"""The driver's heap is 1 GB by default, and each Python worker takes about 100 MB plus its data."""
_ENOUGH_DISK = 1 << 30
_ASKS_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


def check_python(site: Site) -> Finding:
    """Checks whether this Python is new enough, and whether Spark's workers run the same version."""
    here = platform.python_version()
    if sys.version_info < _OLDEST_PYTHON:
        return failed(f"Python {here}", f"install Python {'.'.join(map(str, _OLDEST_PYTHON))} or newer")
    for variable in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        program = os.environ.get(variable)
        if program and (wrong := _other_version(program)):
            fix = f"unset {variable}, or set it to {sys.executable}"
            return failed(f"{variable} = {program} {wrong}, but this is Python {here}", fix)
    return ok(f"Python {here} ({sys.executable})")


def _other_version(program: str) -> str | None:
    """Returns what is wrong with the Python of Spark's workers; None if nothing is."""
    try:
        done = subprocess.run([program, "-c", _ASKS_VERSION], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "does not start"
    version = done.stdout.strip()
    if done.returncode or not version:
        return "does not start"
    return None if version == "{}.{}".format(*sys.version_info[:2]) else f"is Python {version}"


def check_java(site: Site) -> Finding:
    """Checks whether there is a Java that Spark runs on."""
    try:
        require_java()
        version, where = find_java()
    except JavaMissing as error:
        found, _, fix = str(error).partition("; ")
        if "JAVA_HOME" in os.environ:
            fix = ", or ".join(filter(None, (fix, "point JAVA_HOME to such a Java, or unset it")))
        return failed(found, fix)
    return ok(f"Java {version} in {where}")


def check_memory(site: Site) -> Finding:
    """Checks whether Spark and its workers fit into the available memory."""
    return memory_finding(min(psutil.virtual_memory().available, *left_of_limits(Path("/sys/fs/cgroup"))))


def memory_finding(available: int) -> Finding:
    """Returns the finding for an amount of available memory, in bytes."""
    found = f"{bytes_text(available)} available"
    fix = "free memory, or use less: --master 'local[1]' --conf spark.driver.memory=512m --worker-memory 128mb"
    if available < _MIN_MEMORY:
        return failed(f"{found}; Spark needs at least {format_size(_MIN_MEMORY)}", fix)
    if available < _ENOUGH_MEMORY:
        return warning(f"{found}; Spark should have {format_size(_ENOUGH_MEMORY)}", fix)
    return ok(found)


def left_of_limits(cgroup: Path) -> list[int]:
    """Returns the bytes left below a container's limits, cgroup v2 and v1; `sys.maxsize` is always included."""
    left = [sys.maxsize]
    for limit, usage in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            left.append(max(0, int((cgroup / limit).read_text()) - int((cgroup / usage).read_text())))
        except (OSError, ValueError):
            continue  # No limit: cgroup v2 has the word "max" there.
    return left


def check_disk(site: Site) -> Finding:
    """Checks whether Spark can write its temporary files."""
    folders = [Path(folder) for folder in (os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()).split(",")]
    variable = "SPARK_LOCAL_DIRS" if os.environ.get("SPARK_LOCAL_DIRS") else "TMPDIR"
    for folder in folders:
        try:
            with tempfile.TemporaryFile(dir=folder):
                free = psutil.disk_usage(str(folder)).free
        except OSError as error:
            return failed(f"cannot write to {folder}: {error.strerror}", f"set {variable} to a writable folder")
        if free < _ENOUGH_DISK:
            return warning(f"{bytes_text(free)} free in {folder}", f"free some space, or set {variable} to a folder with more")
    return ok(f"{', '.join(map(str, folders))} can be written to")
