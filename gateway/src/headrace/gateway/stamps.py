"""Detects when a file has been written or replaced."""

from pathlib import Path


def stamp_of(path: Path) -> tuple[int, int, int] | None:
    """Modification time, inode and size of a file, which change when it is written or replaced; None if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
