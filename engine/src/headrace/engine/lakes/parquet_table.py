"""A table of Parquet files on a disk, without a log: a folder for each micro-batch, which one rename shows.

Tasks write below `_headrace/staged`, which readers of tables leave out. The driver moves the files that count into a folder of
`_headrace/ready`, which it renames to its place in the table. Both are moves, so that a driver that does the same late, twice or
at the same time as another one finds nothing left to move. `_headrace/shown` has a mark for the last micro-batch of each query.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.engine._errors import LakeError
from headrace.engine.checkpoint.lake_batches import LakeBatch
from headrace.engine.checkpoint.local_disk import make_folder
from headrace.engine.lakes.names import BATCH_FOLDER, digits_of, folder_of, writer_of
from headrace.engine.lakes.staging import OWN, DiskStaging, names_in, synced
from headrace.pipelines.runtime import values_of

_RESTORE = "restore the table and the checkpoint from the same backup"
_Columns = dict[str, tuple[str, str]]
"""The types of the columns of a file, by their path in small letters."""


class ParquetTable:
    """One table.

    Args:
        path: Its folder.
        sync: Whether what is shown survives a power loss.
    """

    def __init__(self, path: str, *, sync: bool = False) -> None:
        self._path = Path(path)
        self.staging = DiskStaging(self._path, sync=sync)
        self._ready, self._marks = self._path / OWN / "ready", self._path / OWN / "shown"
        self._sync = sync

    def last_visible(self, query: str) -> int:
        """The last micro-batch of a query that readers see; -1 if there is none."""
        return max((batch for batch, _ in self._marks_of(query)), default=-1)

    def show(self, batch: LakeBatch) -> bool:
        """Shows the files of a committed micro-batch to readers, all at once; False if they see them already.

        Raises:
            LakeError: A file of it is gone, is another one, or the folder of the micro-batch has others.
            OSError: The disk failed. The same call continues.
        """
        self.staging.check_table(batch)
        if batch.batch <= self.last_visible(batch.query):
            self.staging.check_none_left(batch)
            return False
        place = self._path / folder_of(batch.query, batch.batch)
        if not names_in(place):
            self._gather(batch, place)
        if not place.exists() and batch.batch <= self.last_visible(batch.query):
            return False  # Another driver has shown it, and somebody has removed it since.
        self._check(batch, place)
        if self._sync:
            synced(self._path)  # Even if another driver has moved the folder, and died before this.
        self._mark(batch)
        return True

    def sweep(self, query: str, batch: int, run: int) -> int:
        """See `Staging`."""
        return self.staging.sweep(query, batch, run)

    def prepare(self, schema: pa.Schema, partition_by: Sequence[str] = ()) -> None:
        """Checks that readers can read the columns beside the ones that the last micro-batch has. See `Table`."""
        if (self._path / "_delta_log").exists():
            raise LakeError(
                f"lake {self._path} is a Delta table, which does not know files of format='parquet', and deletes them when it is "
                "vacuumed: write format='delta', or to another folder"
            )
        import pyarrow.parquet as pq  # only if it is needed, since every Python process of an application imports this module

        folders = sorted(name for name in names_in(self._path) if name.startswith(BATCH_FOLDER))
        paths = sorted(path for path, _ in _files_in(self._path / folders[-1])) if folders else []
        files = [path for path in paths if writer_of(path.rpartition("/")[2])]
        if not files:
            return
        there = list(values_of(files[0].rpartition("/")[0]))
        if there != list(partition_by):
            before, now = (", ".join(each) or "nothing" for each in (there, partition_by))
            raise LakeError(
                f"lake {self._path}: {folders[-1]} is partitioned by {before}, now partition_by is {now}, and readers cannot "
                "read both: keep it, or write to another table"
            )
        new = pa.BufferOutputStream()
        pq.ParquetWriter(new, pa.schema([field for field in schema if field.name not in partition_by])).close()
        wanted = _columns(pq.read_metadata(pa.BufferReader(new.getvalue())).schema)
        for path, kind in _columns(pq.read_metadata(self._path / folders[-1] / files[0]).schema).items():
            if wanted.get(path, kind) != kind:
                raise LakeError(
                    f"lake {self._path}: the column {path} is {' '.join(kind)} in {folders[-1]}, now {' '.join(wanted[path])}, "
                    "and readers cannot read both: rename the field, or write to another table"
                )

    def _gather(self, batch: LakeBatch, place: Path) -> None:
        """Moves the files of a micro-batch into one folder, and the folder to its place."""
        ready = self._ready / place.name
        folders = [ready / folder for folder in sorted({file.folder for file in batch.files})]
        for folder in folders:
            make_folder(folder, sync=self._sync)
        for file in batch.files:
            self.staging.move(file.name, ready / file.folder)  # The check that follows finds one that is gone.
        if self._sync:
            for folder in (*folders, ready, self._ready, self.staging.folder):
                synced(folder)
        try:
            if _files_in(ready) == _files_of(batch):
                os.rename(ready, place)
            elif not _files_in(ready):
                _remove_empty(ready)  # Another driver has shown them.
        except FileNotFoundError:
            pass  # Another driver has moved the folder.
        except OSError:
            if not place.exists():
                raise

    def _check(self, batch: LakeBatch, place: Path) -> None:
        wanted, found = _files_of(batch), _files_in(place)
        where = f"lake {self._path}: micro-batch {batch.batch} of query {batch.query}"
        if others := sorted({name for name, _ in found} - {name for name, _ in wanted}):
            raise LakeError(f"{where}: the folder {place} has another file, {others[0]}; move it elsewhere, or {_RESTORE}")
        if missing := sorted(wanted - found):
            raise LakeError(f"{where} is committed, and its file {missing[0][0]} is gone or damaged; {_RESTORE}")

    def _mark(self, batch: LakeBatch) -> None:
        self._marks.mkdir(parents=True, exist_ok=True)
        (self._marks / f"{digits_of(batch.query)}.{batch.batch}").touch()
        if self._sync:
            synced(self._marks)
        for number, mark in self._marks_of(batch.query):
            if number < batch.batch:
                mark.unlink(missing_ok=True)

    def _marks_of(self, query: str) -> list[tuple[int, Path]]:
        names = ((name, name.partition(".")) for name in names_in(self._marks))
        return [(int(n), self._marks / name) for name, (of, _, n) in names if of == digits_of(query) and n.isdecimal()]


def _columns(schema: Any) -> _Columns:
    columns = (schema.column(number) for number in range(len(schema)))
    return {column.path.lower(): (column.physical_type, str(column.logical_type)) for column in columns}


def _files_of(batch: LakeBatch) -> set[tuple[str, int]]:
    return {(file.path, file.bytes) for file in batch.files}


def _files_in(folder: Path, below: str = "") -> set[tuple[str, int]]:
    """The files that readers see in a folder and its partitions, with their sizes."""
    found: set[tuple[str, int]] = set()
    for name in names_in(folder):
        if name.startswith((".", "_")):
            continue
        path = folder / name
        if "=" in name and path.is_dir():
            found |= _files_in(path, f"{below}{name}/")
        else:
            found.add((below + name, path.stat().st_size))
    return found


def _remove_empty(folder: Path) -> None:
    """Removes a folder that has no files."""
    for name in names_in(folder):
        _remove_empty(folder / name)
    folder.rmdir()
