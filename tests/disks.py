"""Disks of their own for tests: small ones, which fill up."""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.absent import absent


@contextmanager
def disk(folder: Path, options: str) -> Iterator[Path]:
    """Mounts a disk in memory at a folder, with options of tmpfs; a skip where this machine cannot have one."""
    if os.geteuid() != 0:
        absent("a disk of its own needs root")
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, text=True, check=False)
    if done.returncode:
        absent(f"a disk of its own cannot be mounted: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> Path:
    """Leaves no room on a disk, and returns the file that takes it."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                continue
    return filler


@contextmanager
def room(size: int) -> Iterator[None]:
    """No file of this process grows beyond a size, in bytes: the kernel writes a part, and then nothing; see setrlimit(2)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
