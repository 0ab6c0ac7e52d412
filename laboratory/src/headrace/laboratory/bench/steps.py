"""The steps of a driver's start, seen from outside: when each of its processes begins, and how much processor time they use."""

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

_LOOKS_EVERY_S = 0.05
_JVM = "org.apache.spark.deploy.SparkSubmit"
_LAUNCHER = "org.apache.spark.launcher.Main"
_PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"
SPARK_ALONE = "headrace.laboratory.bench.spark_alone"
"""The module of a driver without Headrace."""
DRIVER = "headrace.laboratory.bench.driver"
"""The module of one with a session of Headrace's."""
_MODULES = ("pyspark.", "headrace.")


@dataclass
class Seen:
    """A process of a driver.

    Attributes:
        began_s: When it began, in seconds after the driver.
        role: What it is: the JVM, or the Python module that it runs.
        cpu_s: Its processor time when it was seen last, in seconds.
    """

    began_s: float
    role: str
    cpu_s: float


@dataclass(frozen=True)
class Step:
    """A step of a start.

    Attributes:
        name: Its name.
        seconds: How long it took.
    """

    name: str
    seconds: float


class Watch:
    """Watches the processes of a driver, which is the leader of its session."""

    def __init__(self, driver: int) -> None:
        """Takes the driver's process id."""
        self._driver = psutil.Process(driver)
        self._processes: dict[int, psutil.Process] = {}
        self._seen: dict[int, Seen] = {}
        self._strangers: set[int] = set()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch of a driver", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ends.set()
        self._thread.join()

    @property
    def seen(self) -> list[Seen]:
        """The processes in the order of their beginnings, without processes that only ran for a moment."""
        return sorted((seen for seen in self._seen.values() if seen.role), key=lambda seen: seen.began_s)

    @property
    def cpu_s(self) -> float:
        """The processor time of all of them, in seconds."""
        return sum(seen.cpu_s for seen in self._seen.values())

    def _run(self) -> None:
        while not self._ends.wait(_LOOKS_EVERY_S):
            for pid in psutil.pids():
                if pid not in self._strangers:
                    self._look(pid)

    def _look(self, pid: int) -> None:
        try:
            if pid not in self._processes:
                if os.getsid(pid) != self._driver.pid:
                    self._strangers.add(pid)
                    return
                self._processes[pid] = psutil.Process(pid)
            process = self._processes[pid]
            with process.oneshot():
                times = process.cpu_times()
                # The clock of creation times is right to a second only.
                began_s = process.create_time() - self._driver.create_time()
                self._seen[pid] = Seen(began_s, _role(process.cmdline()), times.user + times.system)
        except (ProcessLookupError, psutil.NoSuchProcess, psutil.ZombieProcess):
            return


def _role(command: Sequence[str]) -> str:
    """The role of a process; empty if it runs only for a moment."""
    if _LAUNCHER in command:
        return "launcher of the JVM"
    if _JVM in command and Path(command[0]).name == "java":
        return "JVM"
    modules = [word for word in command[1:] if word.startswith(_MODULES) and "=" not in word and "/" not in word]
    return modules[-1] if modules else ""


def steps(seen: Sequence[Seen], committed_s: float, result_s: float) -> list[Step]:
    """Returns the steps of an application's start, which end one after the other, the last with its first result.

    Args:
        seen: The processes of its driver.
        committed_s: When its first micro-batch was committed, in seconds after the driver began.
        result_s: When its first result was visible.
    """
    workers = [each for each in seen if each.role.startswith("pyspark.") and each.role != _PLANNER]
    ends = {
        "imports": [each.began_s for each in seen if each.role == "JVM"],
        "jvm_and_session": [each.began_s for each in workers],
        "query": [each.began_s for each in seen if each.role == _PLANNER],
        "first_micro_batch": [committed_s],
        "result": [result_s],
    }
    found, before = [], 0.0
    for name, moments in ends.items():
        end = max(before, min(moments, default=before))
        found.append(Step(name, end - before))
        before = end
    return found


def lines(seen: Sequence[Seen], marks: Sequence[tuple[str, float]]) -> list[str]:
    """Returns what happened in a start, in order, as lines for people.

    Args:
        seen: The driver's processes.
        marks: What else happened, and when, in seconds after the driver began.
    """
    rows = [(each.began_s, f"{each.role} begins; processor time {each.cpu_s:.2f} s") for each in seen]
    rows += [(at_s, what) for what, at_s in marks]
    return [f"    {at_s:6.2f} s  {what}" for at_s, what in sorted(rows)]


def committed_since(checkpoint: Path, moment: float) -> float | None:
    """Returns when the first micro-batch after a moment was committed, both in seconds since 1970; None if none was."""
    commits = checkpoint / "commits"
    times = [path.stat().st_mtime for path in commits.iterdir() if path.name.isdecimal()] if commits.exists() else []
    return min((at for at in times if at > moment), default=None)
