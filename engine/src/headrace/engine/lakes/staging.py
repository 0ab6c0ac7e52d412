"""Where tasks write files of a table before its readers see them: `_headrace/staged`, which readers leave out."""

import os
from contextlib import suppress
from pathlib import Path

from headrace.engine.checkpoint.lake_batches import LakeFile
from headrace.engine.checkpoint.local_disk import sync_folder
from headrace.engine.lakes.names import digits_of, writer_of

OWN = "_headrace"


class Staging:
    """The staged files of one table.

    Args:
        path: The folder of the table.
    """

    def __init__(self, path: Path) -> None:
        self.folder = path / OWN / "staged"

    def place(self, name: str) -> Path:
        """Where a task writes a file; its folder exists."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / name

    def move(self, name: str, folder: Path) -> None:
        """Moves a file out, unless it was moved before, or another driver does so now."""
        with suppress(FileNotFoundError):
            os.rename(self.folder / name, folder / name)

    def sweep(self, query: str, batch: int, run: int) -> int:
        """Deletes what earlier runs of a query have staged for micro-batches before `batch`, which were committed without it.

        A run that was replaced may still commit a micro-batch that it had begun, so files of `batch` itself are spared.

        Returns:
            The number of files that were deleted.
        """
        left = 0
        for name in names_in(self.folder):
            writer = writer_of(name)
            if writer is not None and writer.query == digits_of(query) and writer.batch < batch and writer.run < run:
                (self.folder / name).unlink(missing_ok=True)
                left += 1
        return left


def written(path: Path, rows: int, *, sync: bool) -> LakeFile:
    """A file that a task has written whole."""
    if sync:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return LakeFile(path.name, path.stat().st_size, rows)


def names_in(folder: Path) -> list[str]:
    """The names in a folder; none if it does not exist."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def synced(folder: Path) -> None:
    """Has the names in a folder survive a power loss, unless another driver has moved it."""
    with suppress(FileNotFoundError):
        sync_folder(folder)
