"""Runs a short job on this machine, from a source to a sink, whose JVM archives the classes that it has loaded."""

import fcntl
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.contract.errors import HeadraceError
from headrace.engine.spark.class_archive import class_archive
from headrace.machine.owned_folder import remove
from headrace.machine.ports import free_address
from headrace.processes import OwnedProcess, process_group, under_supervisor

_MESSAGES = 5_000
_WITHIN_S = 600.0
_LOOKS_EVERY_S = 0.05
_FOLDERS = ".headrace-prepare-"


class PreparationFailed(HeadraceError):
    """The job failed or took too long. The last lines of its log are in `detail`."""

    def __init__(self, message: str, detail: list[str]) -> None:
        super().__init__(message)
        self.detail = detail


@dataclass(frozen=True)
class Prepared:
    """The archive of this Python environment.

    Attributes:
        archive: Its file.
        bytes: Its size.
        took_s: Seconds it took to make; None if it already existed.
    """

    archive: Path
    bytes: int
    took_s: float | None


def prepare(*, if_missing: bool = False) -> Prepared:
    """Makes the archive, and replaces an existing one. Running sessions are not disturbed.

    If another process is making the archive, waits for it first.

    Args:
        if_missing: Whether to keep an archive that already exists.

    Raises:
        PreparationFailed: The job failed or took too long, or its JVM wrote no archive.
        OSError: The folder of this Python environment cannot be written to.
    """
    archive = class_archive()
    with _alone(archive):
        if if_missing and archive.exists():
            return Prepared(archive, archive.stat().st_size, None)
        begun = time.monotonic()
        _make(archive)
        return Prepared(archive, archive.stat().st_size, time.monotonic() - begun)


@contextmanager
def _alone(archive: Path) -> Iterator[None]:
    """Holds the lock of this environment's preparation, across processes, for the duration of the block."""
    with archive.with_suffix(".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Left behind by a killed preparation: no other one is running now.
        for folder in archive.parent.glob(f"{_FOLDERS}*"):
            remove(folder)
        yield


def _make(archive: Path) -> None:
    # Next to the archive, so that the new one replaces it atomically.
    with tempfile.TemporaryDirectory(prefix=_FOLDERS, dir=archive.parent) as name:
        folder = Path(name)
        made = folder / "archive.jsa"
        with process_group(_job(folder, made), folder) as parts:
            for part in parts.values():
                part.start()
            _wait_for_end(parts["spark"], "the job")
            if not made.exists():
                raise PreparationFailed("this Java makes no archive of its classes", parts["spark"].tail())
        made.replace(archive)


def _job(folder: Path, archive: Path) -> dict[str, list[str]]:
    """Returns the commands of a gateway, two connectors and Spark, by name."""
    words = folder / "words.txt"
    words.write_text("".join(f"word {number % 97}\n" for number in range(_MESSAGES)))
    address = free_address()
    reads = ["--path", str(words), "--source", "lines", "--gateway", address]
    writes = ["--path", str(folder / "out"), "--sink", "counts", "--format", "lines", "--gateway", address]
    training = ["headrace.preparation.training", address, str(folder), str(_MESSAGES), str(archive)]
    return {
        "gateway": under_supervisor("gateway", "--listen", address),
        "source": under_supervisor("connector", "run", "file", *reads),
        "sink": under_supervisor("connector", "run", "file-sink", *writes),
        "spark": [sys.executable, "-m", *training],
    }


def _wait_for_end(process: OwnedProcess, what: str) -> None:
    """Waits until a process has succeeded.

    Raises:
        PreparationFailed: It failed, or took too long.
    """
    deadline = time.monotonic() + _WITHIN_S
    while (code := process.exit_code()) is None:
        if time.monotonic() > deadline:
            raise PreparationFailed(f"{what} took longer than {_WITHIN_S:.0f} s", process.tail())
        time.sleep(_LOOKS_EVERY_S)
    if code:
        raise PreparationFailed(f"{what} failed with exit code {code}", process.tail())
