"""Tables by their format."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import pyarrow as pa

from headrace.engine._errors import LakeError
from headrace.engine.checkpoint.lake_batches import LakeBatch
from headrace.engine.lakes.delta_lake import DeltaLake
from headrace.engine.lakes.parquet_table import ParquetTable
from headrace.engine.lakes.staging import Staging


class Table(Protocol):
    """A table of files. A call that fails, also because its process dies, can be repeated."""

    @property
    def staging(self) -> Staging:
        """Where tasks write files, which readers do not see."""

    def last_visible(self, query: str) -> int:
        """The last micro-batch of a query that readers see; -1 if there is none."""

    def show(self, batch: LakeBatch) -> bool:
        """Shows the files of a committed micro-batch to readers, all at once; False if they see them already.

        Raises:
            LakeError: The table does not match the checkpoint.
            OSError: The storage failed. The same call continues.
        """

    def prepare(self, schema: pa.Schema, partition_by: Sequence[str] = ()) -> None:
        """Creates the table with these columns, or adds columns that it lacks.

        Raises:
            LakeError: Its columns are of other types, others divide it, or it needs more than an append.
            OSError: The storage failed.
        """

    def sweep(self, query: str, batch: int, run: int) -> int:
        """Deletes what runs before `run` of a query have staged for micro-batches before `batch`; returns the number of files."""


def open_table(path: str, form: str, *, sync: bool = False) -> Table:
    """The table at a path.

    Raises:
        LakeError: Its format is unknown, since a later release has written the checkpoint.
    """
    if form == "parquet":
        return ParquetTable(path, sync=sync)
    if form == "delta":
        return DeltaLake(path, sync=sync)
    raise LakeError(f"lake {path}: the format {form!r} is unknown to this release; continue with the release that has written it")


@contextmanager
def naming(failed: str, remedy: str) -> Iterator[None]:
    """Has an error of the storage name the table.

    Args:
        failed: The table, and what has failed; the error follows.
        remedy: What to do, behind the error.

    Raises:
        LakeError: The storage failed.
    """
    try:
        yield
    except OSError as error:
        raise LakeError(f"{failed}: {error}{remedy}") from error
