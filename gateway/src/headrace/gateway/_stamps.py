"""Tells when a file has been written or replaced."""

from pathlib import Path


def stamp_of(path: Path) -> tuple[int, int, int] | None:
    """What is different once a file is another one: its time, inode and size; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
