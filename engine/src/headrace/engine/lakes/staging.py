"""Where tasks write files of a table before its readers see them: `_headrace/staged`, which readers leave out."""

import os
from contextlib import suppress
from pathlib import Path

from headrace.engine._errors import LakeError
from headrace.engine.checkpoint.lake_batches import LakeBatch, LakeFile
from headrace.engine.checkpoint.local_disk import make_folder, sync_file, sync_folder
from headrace.engine.lakes.names import digits_of, writer_of

OWN = "_headrace"


class Staging:
    """The staged files of one table.

    Args:
        path: The folder of the table.
        sync: Whether they survive a power loss.
    """

    def __init__(self, path: Path, *, sync: bool) -> None:
        self._table = path
        self.folder = path / OWN / "staged"
        self._sync = sync

    def place(self, name: str) -> Path:
        """Where a task writes a file; its folder exists."""
        make_folder(self.folder, sync=self._sync)
        return self.folder / name

    def move(self, name: str, folder: Path) -> None:
        """Moves a file out, unless it was moved before, or another driver does so now.

        It becomes as new as the move, since a vacuum of Delta deletes files of a certain age that its log does not name yet.
        """
        with suppress(OSError):  # It may be of another user. Then a rename is permitted, and a new time is not.
            os.utime(self.folder / name)
        with suppress(FileNotFoundError):
            os.rename(self.folder / name, folder / name)

    def check_table(self, batch: LakeBatch) -> None:
        """Checks that the folder of the table exists, which the tasks of a micro-batch have created.

        Raises:
            LakeError: It does not.
        """
        if not self._table.exists():
            raise LakeError(
                f"lake {batch.path}: micro-batch {batch.batch} of query {batch.query} is committed, and the folder is gone: "
                "restore it; if the table was moved, make a link to it here, which may go after the next micro-batch"
            )

    def check_none_left(self, batch: LakeBatch) -> None:
        """Checks that a micro-batch that the table has as shown waits here no longer: its files were moved out before the mark.

        Raises:
            LakeError: It waits, so the mark is of another micro-batch with its number.
        """
        for file in batch.files:
            if (self.folder / file.name).exists():
                raise LakeError(
                    f"lake {batch.path}: the table has another micro-batch {batch.batch} of query {batch.query}, and {file.name} "
                    f"still waits in {self.folder}: a copy of the checkpoint writes to the table, or two lakes of the pipeline "
                    "are one folder. Stop the copy, or give each lake a folder of its own, and continue on a new checkpoint"
                )

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
        sync_file(path)
        sync_folder(path.parent)
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
