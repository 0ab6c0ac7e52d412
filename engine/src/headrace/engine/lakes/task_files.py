"""Writes the rows of one task to files of tables, which readers do not see yet."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.engine._errors import LakeError
from headrace.engine.checkpoint.lake_batches import LakeBatch, LakeFile
from headrace.engine.lakes.names import new_name
from headrace.engine.lakes.tables import open_table
from headrace.engine.sink.writer import Task
from headrace.pipelines.runtime import Lake

if TYPE_CHECKING:
    import pyarrow.parquet as pq

GROUP_ROWS = 1 << 17
GROUP_BYTES = 64 << 20
"""Rows are gathered up to about this number or size, and then written as one row group."""
FILE_BYTES = 256 << 20
"""The size at which a task begins a further file."""


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
        with _naming(path):
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
            with _naming(path):
                done.append(LakeBatch(path, self._lakes[path].format, query, batch, files.finish()))
        self._is_finished = True
        return tuple(each for each in done if each.files)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Has an error of the storage name the table.

    Raises:
        LakeError: The storage failed.
    """
    try:
        yield
    except OSError as error:
        raise LakeError(f"lake {path}: a task cannot write its files: {error}. Correct that, and start again") from error


class _TableFiles:
    """The files of one task for one table."""

    def __init__(self, lake: Lake, task: Task, *, sync: bool) -> None:
        self._schema = lake.columns.schema
        self._staging = open_table(lake.path, lake.format, sync=sync).staging
        self._task = task
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._names: list[str] = []
        self._done: list[LakeFile] = []
        self._file: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_rows >= GROUP_ROWS or self._waiting_bytes >= GROUP_BYTES:
            self._write_group()

    def finish(self) -> tuple[LakeFile, ...]:
        self._write_group()
        self._close()
        return tuple(self._done)

    def discard(self) -> None:
        for close in (each.close for each in (self._writer, self._file) if each is not None):
            with suppress(OSError):  # The reason is raised already.
                close()
        for name in self._names:
            with suppress(OSError):  # A later start sweeps what stays.
                self._staging.discard(name)

    def _write_group(self) -> None:
        if not self._waiting:
            return
        import pyarrow.parquet as pq  # only if it is needed, since every Python process of an application imports this module

        group = pa.Table.from_batches(self._waiting, self._schema)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        if self._writer is None or self._file is None:
            self._names.append(new_name(self._task))
            self._file = self._staging.create(self._names[-1])
            self._writer = pq.ParquetWriter(self._file, self._schema, compression="zstd")
        self._writer.write_table(group, row_group_size=max(1, group.num_rows))
        self._rows += group.num_rows
        if self._file.tell() >= FILE_BYTES:
            self._close()

    def _close(self) -> None:
        if self._writer is not None and self._file is not None:
            self._writer.close()
            self._file.close()
            self._done.append(self._staging.written(self._names[-1], self._rows))
            self._writer, self._file, self._rows = None, None, 0
