"""A file system of its own that can be frozen or full: whatever writes to it then waits, or fails."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_BYTES = 8 * 2**20
_TOOLS = ("mkfs.ext4", "mount", "umount", "fsfreeze")


def is_missing() -> str:
    """Returns what this machine lacks for such a file system; empty if it lacks nothing."""
    if os.geteuid() != 0:
        return "root"
    return ", ".join(tool for tool in _TOOLS if shutil.which(tool) is None)


@contextmanager
def own_disk(folder: Path) -> Iterator[None]:
    """Mounts an empty file system at a folder, which is created, until the block ends.

    Raises:
        subprocess.CalledProcessError: It cannot be mounted.
    """
    folder.mkdir(parents=True)
    image = folder.with_name(f"{folder.name}.image")
    with image.open("wb") as empty:
        empty.truncate(_BYTES)
    _run("mkfs.ext4", "-q", image)
    _run("mount", "-o", "loop", image, folder)
    try:
        (folder / "lost+found").rmdir()
        yield
    finally:
        _run("umount", "--lazy", folder)


def freeze(folder: Path) -> None:
    """Freezes the file system at a folder."""
    _run("fsfreeze", "--freeze", folder)


def thaw(folder: Path) -> None:
    """Ends what `freeze` has begun."""
    _run("fsfreeze", "--unfreeze", folder)


def fill(file: Path) -> None:
    """Fills the file system of a file with it."""
    with file.open("wb", buffering=0) as full:
        for size in (65_536, 1):
            with suppress(OSError):
                while True:
                    full.write(bytes(size))


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True)
