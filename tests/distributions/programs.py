"""The programs of environments that hold one distribution, as processes."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DEADLINE_S = 150.0


@dataclass(frozen=True)
class Program:
    """A process that runs, and where it writes what it says."""

    process: subprocess.Popen[bytes]
    log: Path

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(DEADLINE_S)

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Waits for something while it runs."""
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self.log.read_text()}"
            assert time.monotonic() < deadline, f"{what}: {self.log.read_text()}"
            time.sleep(0.02)


@contextmanager
def running(program: Path, *arguments: str | Path) -> Iterator[Program]:
    """Runs a program of an environment, in a folder and with variables in which nothing of this repository is found."""
    folder = program.parents[1]
    log = folder / f"{program.name}-{len(list(folder.glob('*.log')))}.log"
    with log.open("wb") as out:
        process = subprocess.Popen([program, *map(str, arguments)], cwd=folder, env=environ(), stdout=out, stderr=out)
    try:
        yield Program(process, log)
    finally:
        process.kill()
        process.wait()


def environ() -> dict[str, str]:
    """This process's variables without what would tell a program where the repository is, or what to connect to."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "PYTHON", "VIRTUAL_ENV"))}
