"""Where tasks write files of a table before its readers see them: `_headrace/staged`, which readers leave out."""

import os
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine._errors import LakeError
from headrace.engine.checkpoint.lake_batches import LakeBatch, LakeFile
from headrace.engine.checkpoint.local_disk import make_folder, sync_file, sync_folder
from headrace.engine.lakes.names import digits_of, writer_of

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

OWN = "_headrace"
STAGED = f"{OWN}/staged"


@dataclass(frozen=True, slots=True)
class Found:
    """A file where readers find it.

    Attributes:
        bytes: Its size.
        modified_ms: When it was written, in milliseconds since 1970.
    """

    bytes: int
    modified_ms: int


class Staging(ABC):
    """The staged files of one table.

    Args:
        place: The place of the table, as its users know it.
    """

    def __init__(self, place: str) -> None:
        self._place = place

    @abstractmethod
    def create(self, name: str) -> pa.NativeFile:
        """Begins a file."""

    @abstractmethod
    def written(self, name: str, rows: int) -> LakeFile:
        """A file that a task has written whole and closed."""

    @abstractmethod
    def discard(self, name: str) -> None:
        """Deletes a file, if it exists."""

    @abstractmethod
    def add(self, name: str) -> Found | None:
        """Moves a file to where readers of the table find it, unless that was done; None if it is nowhere."""

    @abstractmethod
    def footer_of(self, name: str) -> "FileMetaData | None":
        """The footer of a file, staged or moved; None if it is gone or damaged."""

    def columns_of(self, name: str) -> pa.Schema | None:
        """The columns of a file, staged or moved; None if it is gone or damaged."""
        footer = self.footer_of(name)
        return None if footer is None else footer.schema.to_arrow_schema()

    @abstractmethod
    def make_table(self) -> list[str]:
        """Creates the folder of the table, if it does not exist; returns the names of what it contains, if that is known."""

    @abstractmethod
    def check_table(self, batch: LakeBatch) -> None:
        """Checks that the folder of the table exists, which the tasks of a micro-batch have created.

        Raises:
            LakeError: It does not.
        """

    @abstractmethod
    def keep_log(self, version: int) -> None:
        """Has the entries of the log of Delta from a version on survive a power loss, which deltalake does not do."""

    def check_none_left(self, batch: LakeBatch) -> None:
        """Checks that a micro-batch that the table has as shown waits here no longer: its files were moved out before the mark.

        Raises:
            LakeError: It waits, so the mark is of another micro-batch with its number.
        """
        for file in batch.files:
            if self._is_staged(file.name):
                raise LakeError(
                    f"lake {batch.path}: the table has another micro-batch {batch.batch} of query {batch.query}, and {file.name} "
                    f"still waits in {self._place}/{STAGED}: a copy of the checkpoint writes to the table, or two lakes of the "
                    "pipeline are one folder. Stop the copy, or give each lake a folder of its own, and continue on a new "
                    "checkpoint"
                )

    def sweep(self, query: str, batch: int, run: int) -> int:
        """Deletes what earlier runs of a query have staged for micro-batches before `batch`, which were committed without it.

        A run that was replaced may still commit a micro-batch that it had begun, so files of `batch` itself are spared.

        Returns:
            The number of files that were deleted.
        """
        left = 0
        for name in self._names():
            writer = writer_of(name)
            if writer is not None and writer.query == digits_of(query) and writer.batch < batch and writer.run < run:
                self.discard(name)
                left += 1
        return left

    @abstractmethod
    def _names(self) -> list[str]:
        """The names of the staged files."""

    @abstractmethod
    def _is_staged(self, name: str) -> bool:
        """Whether a file is staged."""


class DiskStaging(Staging):
    """The staged files of a table in a folder.

    Args:
        path: The folder of the table.
        sync: Whether they survive a power loss.
        below: The folder of the files in it that readers find; empty for the folder of the table itself.
    """

    def __init__(self, path: Path, *, sync: bool, below: str = "") -> None:
        super().__init__(str(path))
        self._table = path
        self._data = path / below
        self.folder = path / STAGED
        self._sync = sync

    def create(self, name: str) -> pa.NativeFile:
        """See `Staging`; its folder exists."""
        make_folder(self.folder, sync=self._sync)
        return pa.OSFile(str(self.folder / name), "wb")

    def written(self, name: str, rows: int) -> LakeFile:
        """See `Staging`."""
        path = self.folder / name
        if self._sync:
            sync_file(path)
            sync_folder(path.parent)
        return LakeFile(name, path.stat().st_size, rows)

    def discard(self, name: str) -> None:
        """See `Staging`."""
        (self.folder / name).unlink(missing_ok=True)

    def move(self, name: str, folder: Path) -> None:
        """Moves a file out, unless it was moved before, or another driver does so now.

        It becomes as new as the move, since a vacuum of Delta deletes files of a certain age that its log does not name yet.
        """
        with suppress(OSError):  # It may be of another user. Then a rename is permitted, and a new time is not.
            os.utime(self.folder / name)
        with suppress(FileNotFoundError):
            os.rename(self.folder / name, folder / name)

    def add(self, name: str) -> Found | None:
        """See `Staging`."""
        if self._data != self._table:
            make_folder(self._data, sync=self._sync)
        self.move(name, self._data)
        try:
            found = (self._data / name).stat()
        except FileNotFoundError:
            return None
        if self._sync:
            synced(self._data)
        return Found(found.st_size, int(found.st_mtime * 1000))

    def footer_of(self, name: str) -> "FileMetaData | None":
        """See `Staging`."""
        import pyarrow.parquet as pq

        for folder in self.folder, self._data:
            with suppress(FileNotFoundError, pa.ArrowInvalid):
                return pq.read_metadata(folder / name)
        return None

    def make_table(self) -> list[str]:
        """See `Staging`."""
        self._table.mkdir(parents=True, exist_ok=True)
        return names_in(self._table)

    def check_table(self, batch: LakeBatch) -> None:
        """See `Staging`."""
        if not self._table.exists():
            raise LakeError(
                f"lake {batch.path}: micro-batch {batch.batch} of query {batch.query} is committed, and the folder is gone: "
                "restore it; if the table was moved, make a link to it here, which may go after the next micro-batch"
            )

    def keep_log(self, version: int) -> None:
        """See `Staging`."""
        if not self._sync:
            return
        log = self._table / "_delta_log"
        for name in names_in(log):
            if name.endswith(".json") and name >= f"{version:020}":
                with suppress(FileNotFoundError):  # Another writer has deleted it, since a checkpoint of the log contains it.
                    sync_file(log / name)
        synced(log)

    def _names(self) -> list[str]:
        return names_in(self.folder)

    def _is_staged(self, name: str) -> bool:
        return (self.folder / name).exists()


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
