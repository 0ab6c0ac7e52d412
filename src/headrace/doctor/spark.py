"""Checks of Spark: what is installed, and on request whether it starts, in a process of its own that runs this module."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from headrace.doctor.finding import Finding, Site, failed, ok, skipped, warning
from headrace.machine.traces import first_cause
from headrace.terminal import EXIT_FAILED

_START_S = 180.0
_LOOK = "run Spark alone to see its errors: pyspark --master 'local[1]'"


def check_spark(site: Site) -> Finding:
    """Checks whether PySpark is installed with its jars, and whether its own Spark is the one in use."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        return failed("PySpark is not installed", "pip install headrace-engine")
    home = Path(next(iter(spec.submodule_search_locations)))
    if not any((home / "jars").glob("spark-core_*.jar")):
        return failed(f"PySpark in {home} has no jars", "pip install --force-reinstall --no-deps pyspark")
    other = os.environ.get("SPARK_HOME")
    if other and not (Path(other) / "bin" / "spark-submit").is_file():
        return failed(f"SPARK_HOME = {other} has no Spark", "unset SPARK_HOME, or point it to a Spark installation")
    if other and Path(other).resolve() != home.resolve():
        return warning(
            f"SPARK_HOME = {other} is used in place of PySpark's own Spark",
            "unset SPARK_HOME, unless that Spark has the same version",
        )
    return ok(f"PySpark in {home}")


def check_session(site: Site) -> Finding:
    """Checks whether Spark starts and runs Python."""
    if not site.start_spark:
        return skipped("Spark was not started", "to start it: headrace doctor --spark")
    begun = time.monotonic()
    try:
        # In a separate process, so that neither its output nor its JVM stays behind.
        done = subprocess.run(
            [sys.executable, "-m", "headrace.doctor.spark"], capture_output=True, text=True, timeout=_START_S, check=False
        )
    except subprocess.TimeoutExpired:
        return failed(
            f"Spark did not start within {_START_S:.0f} s",
            "find out why: pyspark --master 'local[1]'",
            EXIT_FAILED,
        )
    if done.returncode:
        cause = first_cause(done.stderr) if done.stderr.strip() else f"exit code {done.returncode}"
        return failed(f"Spark does not start: {cause}", _LOOK, EXIT_FAILED)
    answer = json.loads(done.stdout.splitlines()[-1])
    fix = "" if answer["archive"] else "to halve its startup time: headrace prepare"
    return ok(f"Spark {answer['version']} started and ran Python in {time.monotonic() - begun:.0f} s", fix)


def main() -> None:
    """Starts Spark, runs a Python function on it, and prints its version as JSON."""
    from headrace.engine import build_session
    from headrace.engine.spark.class_archive import class_archive

    spark = build_session("headrace doctor", "local[1]", quick_start=True)
    try:
        total = spark.sparkContext.parallelize(range(10), 1).map(lambda number: number + 1).sum()
        assert total == 55
        print(json.dumps({"version": spark.version, "archive": class_archive().exists()}))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
