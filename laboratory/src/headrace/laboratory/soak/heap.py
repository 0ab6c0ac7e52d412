"""How much of a JVM's heap is alive, as its own log tells after each full collection."""

import re
from pathlib import Path

COLLECT_EVERY_S = 15
"""Spark has the JVM collect so often, which it does by itself every half hour."""
_FULL = re.compile(r"^\[(?P<uptime>\d+\.\d+)s\].* Pause Full .* \d+M->(?P<alive>\d+)M\(", re.MULTILINE)
_MIB = 2**20 / 1e6


def settings(log: Path, heap_mib: int) -> dict[str, str]:
    """Settings of Spark with which a driver's JVM takes all of its heap at once and writes that log.

    A heap that may grow does so for hours before the JVM looks for what is alive; resident memory would say nothing.
    """
    options = f"-Xms{heap_mib}m -XX:+AlwaysPreTouch -Xlog:gc:file={log}:uptime:filecount=0"
    return {
        "spark.driver.memory": f"{heap_mib}m",
        "spark.driver.extraJavaOptions": options,
        "spark.cleaner.periodicGC.interval": f"{COLLECT_EVERY_S}s",
    }


def alive_mb(log: Path) -> list[tuple[float, float]]:
    """When, in seconds since the JVM started, how much was alive, in MB of 10^6 bytes."""
    if not log.exists():
        return []
    found = _FULL.finditer(log.read_text(errors="replace"))
    return [(float(line["uptime"]), int(line["alive"]) * _MIB) for line in found]
