"""Reads from a JVM's log how much of its heap is alive after each full collection."""

import re
from pathlib import Path

COLLECT_EVERY_S = 15
"""How often Spark triggers a full collection, in seconds; by default every half hour."""
_FULL = re.compile(r"^\[(?P<uptime>\d+\.\d+)s\].* Pause Full .* \d+M->(?P<alive>\d+)M\(", re.MULTILINE)
_MIB = 2**20 / 1e6


def settings(log: Path, heap_mib: int) -> dict[str, str]:
    """Returns the Spark settings with which a driver's JVM allocates its entire heap at the start, and writes that log.

    Otherwise the heap grows for hours before a collection, and resident memory would be meaningless.
    """
    options = f"-Xms{heap_mib}m -XX:+AlwaysPreTouch -Xlog:gc:file={log}:uptime:filecount=0"
    return {
        "spark.driver.memory": f"{heap_mib}m",
        "spark.driver.extraJavaOptions": options,
        "spark.cleaner.periodicGC.interval": f"{COLLECT_EVERY_S}s",
    }


def alive_mb(log: Path) -> list[tuple[float, float]]:
    """Returns the times of full collections, in seconds since the JVM started, and what was alive, in MB of 10^6 bytes."""
    if not log.exists():
        return []
    found = _FULL.finditer(log.read_text(errors="replace"))
    return [(float(line["uptime"]), int(line["alive"]) * _MIB) for line in found]
