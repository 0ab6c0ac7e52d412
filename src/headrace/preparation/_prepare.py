"""Runs a short job on this machine, from a connector to a sink, and archives the classes that its JVM has loaded."""

import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from headrace.engine._class_archive import archive_command, class_archive
from headrace.processes import OwnedProcess, company, free_address, headrace

_MESSAGES = 5_000
_WITHIN_S = 300.0
_LOOKS_EVERY_S = 0.05


class PreparationFailed(Exception):
    """The job failed, or took too long; what it said is in `detail`."""

    def __init__(self, message: str, detail: list[str]) -> None:
        super().__init__(message)
        self.detail = detail


@dataclass(frozen=True)
class Prepared:
    """What was made.

    Attributes:
        archive: The archive.
        bytes: Its size.
        took_s: How long it took to make it.
    """

    archive: Path
    bytes: int
    took_s: float


def prepare() -> Prepared:
    """Makes the archive, in place of the one that is there. Sessions that run are not disturbed.

    Raises:
        PreparationFailed: the job or the archiving failed, or took too long.
        OSError: the folder of this Python environment cannot be written to.
    """
    begun = time.monotonic()
    archive = class_archive()
    # Beside the archive, so that it takes its place in one step.
    with tempfile.TemporaryDirectory(prefix=".headrace-", dir=archive.parent) as name:
        folder = Path(name)
        classes, made = folder / "classes.txt", folder / "archive.jsa"
        with company(_job(folder, classes), folder) as parts:
            for part in parts.values():
                part.start()
            _wait_for_end(parts["spark"], "the job")
        java = json.loads((folder / "java.json").read_text())
        command = archive_command(java["java.home"], java["java.class.path"], classes, made)
        # In the environment of this process: a JVM with the options of a short run would leave objects out.
        archiver = OwnedProcess("archive", command, folder, os.environ)
        try:
            archiver.start()
            _wait_for_end(archiver, "Java's archiving of its classes")
        finally:
            archiver.kill()
        if not made.exists():
            raise PreparationFailed("this Java makes no archive of its classes", archiver.tail())
        made.replace(archive)
    return Prepared(archive, archive.stat().st_size, time.monotonic() - begun)


def _job(folder: Path, classes: Path) -> dict[str, list[str]]:
    """The commands of a gateway, connectors, and Spark, by name."""
    words = folder / "words.txt"
    words.write_text("".join(f"word {number % 97}\n" for number in range(_MESSAGES)))
    address = free_address()
    reads = ["--path", str(words), "--source", "lines", "--gateway", address]
    writes = ["--path", str(folder / "out"), "--sink", "counts", "--format", "lines", "--gateway", address]
    training = ["headrace.preparation._training", address, str(folder), str(_MESSAGES), str(classes)]
    return {
        "gateway": headrace("gateway", "--listen", address),
        "source": headrace("connector", "run", "file", *reads),
        "sink": headrace("connector", "run", "file-sink", *writes),
        "spark": [sys.executable, "-m", *training],
    }


def _wait_for_end(process: OwnedProcess, what: str) -> None:
    """Waits until a process has ended well.

    Raises:
        PreparationFailed: it failed, or took too long.
    """
    deadline = time.monotonic() + _WITHIN_S
    while (code := process.exit_code()) is None:
        if time.monotonic() > deadline:
            raise PreparationFailed(f"{what} took longer than {_WITHIN_S:.0f} s", process.tail())
        time.sleep(_LOOKS_EVERY_S)
    if code:
        raise PreparationFailed(f"{what} failed", process.tail())
