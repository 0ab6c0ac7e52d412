"""Samples the threads of Spark's JVM, by name: nothing in the JVM is changed for it."""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from headrace.laboratory.bench.profile.sampler import WRITES_EVERY_S

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Interval:
    """The processor time of the threads of a process, in seconds, until a time since 1970."""

    at: float
    role: str
    stacks: dict[str, float]


@dataclass(slots=True)
class _Threads:
    """The threads of a process, looked at again and again."""

    tasks: Path
    used: dict[str, int] = field(default_factory=dict)

    def interval(self) -> Interval:
        found = defaultdict[str, int](int)
        for task in self.tasks.iterdir():
            try:
                head, _, rest = (task / "stat").read_text().rpartition(")")
            except OSError:
                continue  # It has ended.
            fields = rest.split()
            used = int(fields[11]) + int(fields[12])
            found[head.partition("(")[2]] += used - self.used.get(task.name, 0)
            self.used[task.name] = used
        return Interval(time.time(), "jvm", {name: ticks / _TICKS for name, ticks in found.items() if ticks})


def jvm() -> int:
    """Returns the process of the JVM that this process has started."""
    return next(child.pid for child in psutil.Process().children(recursive=True) if child.name() == "java")


@contextmanager
def watching(pid: int) -> Iterator[list[Interval]]:
    """Yields what the threads of a process use while the block runs."""
    threads, intervals, stop = _Threads(Path(f"/proc/{pid}/task")), list[Interval](), threading.Event()
    threads.interval()

    def watch() -> None:
        while not stop.wait(WRITES_EVERY_S):
            intervals.append(threads.interval())

    watcher = threading.Thread(target=watch, name="headrace-profile-jvm")
    watcher.start()
    try:
        yield intervals
    finally:
        stop.set()
        watcher.join()
        intervals.append(threads.interval())
