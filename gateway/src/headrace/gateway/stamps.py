"""Detects when a file has been written or replaced."""

from pathlib import Path


def stamp_of(path: Path) -> tuple[int, int, int] | None:
    """Returns a file's modification time, inode and size, which change when it is written or replaced; None without a file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
