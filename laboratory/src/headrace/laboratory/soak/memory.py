"""Measures the memory of the processes of a run."""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

COLLECT_EVERY_S = 15
"""How often Spark triggers a full collection, in seconds; by default every half hour."""
_FULL = re.compile(r"^\[(?P<uptime>\d+\.\d+)s\].* Pause Full .* \d+M->(?P<alive>\d+)M\(", re.MULTILINE)
_MIB = 2**20 / 1e6
_MB = 1e6
_FIELD = re.compile(r"^(Rss|Pss_Anon|Pss_Shmem|SwapPss):\s+(\d+) kB$", re.MULTILINE)
_PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of a process, in MB of 10^6 bytes.

    Attributes:
        resident: Its resident memory.
        own: The memory it has allocated, including swapped memory; a shared page is divided equally among its processes. Pages
            of files, such as libraries, are excluded, since their share depends on other processes. If the system does not
            report it, the same as `resident`.
    """

    resident: float
    own: float


def memory_of(pid: int) -> Memory | None:
    """Returns the memory of a process; None if it has ended."""
    try:
        sizes = {name: int(size) * 1024 / _MB for name, size in _FIELD.findall(Path(f"/proc/{pid}/smaps_rollup").read_text())}
    except OSError:
        sizes = {}
    if "Rss" in sizes and "Pss_Anon" in sizes:
        return Memory(sizes["Rss"], sum(size for name, size in sizes.items() if name != "Rss"))
    with suppress(psutil.Error):
        resident = psutil.Process(pid).memory_info().rss / _MB
        return Memory(resident, resident) if resident else None
    return None


def named_processes(leaders: Iterable[tuple[str, int]]) -> dict[int, str]:
    """Returns the living processes of a run, by id, with names for people.

    Args:
        leaders: The name and id of each started process, which leads a session.
    """
    names = {pid: name for name, pid in leaders}
    found: dict[int, str] = {}
    for pid in psutil.pids():
        with suppress(psutil.Error, OSError):
            session = os.getsid(pid)
            if pid in names:
                found[pid] = names[pid]
            elif session in names:
                process = psutil.Process(pid)
                if process.status() != psutil.STATUS_ZOMBIE:
                    found[pid] = _name(names[session], process)
    return found


def _name(leader: str, process: psutil.Process) -> str:
    """Returns the name of a process that a leader has started."""
    # A process that is just starting has no command line yet.
    command = process.cmdline() or [process.name()]
    if "java" in Path(command[0]).name:
        return f"{leader}'s JVM"
    if _PLANNER in command:
        return "planner"
    if "-m" not in command:
        return f"{leader}: {Path(command[0]).name}"
    module = command[-1].rpartition(".")[2]
    parent = process.parent()
    # Spark forks its workers from a daemon, which has the same command line.
    what = "Python worker" if parent is not None and parent.cmdline() == command else "Python daemon"
    return what if module == "worker" else f"{what}: {module}"


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
