"""Writes the rows of one task to files of tables, which readers do not see yet."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.engine.checkpoint.lake_batches import LakeBatch, LakeFile
from headrace.engine.lakes.names import new_name
from headrace.engine.lakes.places import place_of, staging_at
from headrace.engine.lakes.staging import Staging
from headrace.engine.lakes.tables import naming
from headrace.engine.sink.writer import Task
from headrace.pipelines.runtime import Lake, divided

if TYPE_CHECKING:
    import pyarrow.parquet as pq

GROUP_ROWS = 1 << 17
GROUP_BYTES = 64 << 20
GROUPS_OF_A_FILE = 4
"""A partition's rows are gathered up to about this number or size, or this part of a file, and then written as one row group.

A task holds rows of this size for all partitions of a table; the largest group is then written before it is full.
"""
PIECES, PIECE_BYTES = 64, 4096
"""How many record batches wait for a partition before they are joined, and what a small one needs beside its rows."""
SAMPLE_ROWS, DISTINCT = 4096, 0.8
"""A column gets a dictionary if fewer than this share of a sample of its values are distinct."""
MAX_OPEN = 64
"""How many partitions of a table a task writes at once; the one that got rows first gets a further file later."""


class TaskFiles:
    """The files of one task. A context manager: what is not finished is deleted.

    Args:
        lakes: The steps that write to tables.
        task: The task.
        sync: Whether the files survive a power loss.
    """

    def __init__(self, lakes: Iterable[Lake], task: Task, *, sync: bool) -> None:
        self._lakes = {lake.path: lake for lake in lakes}
        self._task = task
        self._sync = sync
        self._tables: dict[str, _TableFiles] = {}
        self._is_finished = False

    def __enter__(self) -> "TaskFiles":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._is_finished:
            for files in self._tables.values():
                files.discard()

    def write(self, path: str, rows: pa.RecordBatch) -> None:
        """Writes rows of the table at a path.

        Raises:
            LakeError: The storage failed.
        """
        with _writing(path):
            if path not in self._tables:
                self._tables[path] = _TableFiles(self._lakes[path], self._task, sync=self._sync)
            self._tables[path].write(rows)

    def finish(self) -> tuple[LakeBatch, ...]:
        """Completes the files; returns them.

        Raises:
            LakeError: The storage failed.
        """
        query, batch = self._task.query_id, self._task.batch
        done = []
        for path, files in self._tables.items():
            with _writing(path):
                done.append(LakeBatch(path, self._lakes[path].format, query, batch, files.finish()))
        self._is_finished = True
        return tuple(each for each in done if each.files)


def _writing(path: str) -> AbstractContextManager[None]:
    """Has an error of the storage name the table."""
    return naming(f"lake {path}: a task cannot write its files", ". Correct that, and start again")


def _repeating(group: pa.Table) -> bool | list[str]:
    """The columns whose values repeat, for which a dictionary pays: for the others, looking for repeats is half of the work."""
    if any(pa.types.is_nested(field.type) for field in group.schema):
        return True  # Columns inside others have names of their own.
    return [name for name in group.schema.names if _repeats(group.column(name))]


def _repeats(column: pa.ChunkedArray) -> bool:
    import pyarrow.compute as pc

    some = column.take(np.linspace(0, len(column) - 1, min(len(column), SAMPLE_ROWS), dtype=np.int64))
    try:
        return bool(pc.count_distinct(some).as_py() < DISTINCT * len(some))
    except pa.ArrowNotImplementedError:
        return True


def _group_bytes(file_bytes: int) -> int:
    return min(GROUP_BYTES, file_bytes // GROUPS_OF_A_FILE)


class _TableFiles:
    """The files of one task for one table."""

    def __init__(self, lake: Lake, task: Task, *, sync: bool) -> None:
        by = lake.partition_by
        self._partition_by = by
        self._schema = pa.schema([field for field in lake.columns.schema if field.name not in by])
        self._staging = staging_at(place_of(lake), sync=sync)
        self._task = task
        self._file_bytes = lake.file_bytes
        self._partitions: dict[str, _PartitionFiles] = {}
        """The partitions by their folders, in the order in which they last got rows."""

    def write(self, rows: pa.RecordBatch) -> None:
        for folder, some in divided(rows, self._partition_by):
            files = self._partitions.pop(folder, None) or self._partition(folder)
            self._partitions[folder] = files
            files.add(some)
            if files.is_full:
                files.write_group()
        while sum(files.held_bytes for files in self._partitions.values()) >= GROUP_BYTES:
            max(self._partitions.values(), key=lambda files: files.held_bytes).write_group()
        for files in [each for each in self._partitions.values() if each.is_open][:-MAX_OPEN]:
            files.close()

    def finish(self) -> tuple[LakeFile, ...]:
        return tuple(file for files in self._partitions.values() for file in files.finish())

    def discard(self) -> None:
        for files in self._partitions.values():
            files.discard()

    def _partition(self, folder: str) -> "_PartitionFiles":
        return _PartitionFiles(self._staging, self._schema, self._task, folder, self._file_bytes)


class _PartitionFiles:
    """The files of one task for one partition of a table."""

    def __init__(self, staging: Staging, schema: pa.Schema, task: Task, folder: str, file_bytes: int) -> None:
        self._file_bytes = file_bytes
        self._staging = staging
        self._schema = schema
        self._task = task
        self._folder = folder
        self._waiting: list[pa.RecordBatch] = []
        self._pieces: list[pa.RecordBatch] = []
        """What waits behind that, in record batches of any size."""
        self._rows_waiting = self._bytes_waiting = 0
        self._names: list[str] = []
        self._done: list[LakeFile] = []
        self._file: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0

    @property
    def is_open(self) -> bool:
        return self._writer is not None

    @property
    def is_full(self) -> bool:
        """Whether the rows that wait are as many, or as large, as a row group."""
        return self._rows_waiting >= GROUP_ROWS or self._bytes_waiting >= _group_bytes(self._file_bytes)

    @property
    def held_bytes(self) -> int:
        """How much memory the rows that wait need."""
        return self._bytes_waiting + PIECE_BYTES * (len(self._waiting) + len(self._pieces))

    def add(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        self._pieces.append(rows)
        self._rows_waiting += rows.num_rows
        self._bytes_waiting += rows.nbytes
        if len(self._pieces) == PIECES:
            self._waiting += pa.Table.from_batches(self._pieces, self._schema).combine_chunks().to_batches()
            self._pieces = []

    def finish(self) -> tuple[LakeFile, ...]:
        self.write_group()
        self.close()
        return tuple(self._done)

    def discard(self) -> None:
        for close in (each.close for each in (self._writer, self._file) if each is not None):
            with suppress(OSError):  # The reason is raised already.
                close()
        for name in self._names:
            with suppress(OSError):  # A later start sweeps what stays.
                self._staging.discard(name)

    def write_group(self) -> None:
        if not self._rows_waiting:
            return
        group = pa.Table.from_batches([*self._waiting, *self._pieces], self._schema)
        pieces = 1 + self._bytes_waiting // (1 + _group_bytes(self._file_bytes))
        self._waiting, self._pieces, self._rows_waiting, self._bytes_waiting = [], [], 0, 0
        rows = 1 + group.num_rows // pieces
        for first in range(0, group.num_rows, rows):
            self._write(group.slice(first, rows))

    def _write(self, group: pa.Table) -> None:
        import pyarrow.parquet as pq  # only if it is needed, since every Python process of an application imports this module

        if self._writer is None or self._file is None:
            self._names.append(new_name(self._task))
            self._file = self._staging.create(self._names[-1])
            self._writer = pq.ParquetWriter(self._file, self._schema, compression="zstd", use_dictionary=_repeating(group))
        self._writer.write_table(group, row_group_size=max(1, group.num_rows))
        self._rows += group.num_rows
        if self._file.tell() >= self._file_bytes:
            self.close()

    def close(self) -> None:
        if self._writer is not None and self._file is not None:
            self._writer.close()
            self._file.close()
            written = self._staging.written(self._names[-1], self._rows)
            self._done.append(replace(written, folder=self._folder))
            self._writer, self._file, self._rows = None, None, 0
