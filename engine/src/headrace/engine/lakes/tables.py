"""Tables by their format."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import pyarrow as pa

from headrace.engine._errors import LakeError
from headrace.engine.checkpoint.lake_batches import LakeBatch
from headrace.engine.lakes.delta_lake import DeltaLake
from headrace.engine.lakes.iceberg_lake import IcebergLake
from headrace.engine.lakes.parquet_table import ParquetTable
from headrace.engine.lakes.places import Place, place_of
from headrace.engine.lakes.staging import Staging
from headrace.pipelines.runtime import Lake


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


def open_table(place: Place, *, sync: bool = False) -> Table:
    """The table at a place.

    Raises:
        LakeError: Its format is unknown, since a later release has written the checkpoint, or its catalog is.
    """
    if place.format == "parquet":
        return ParquetTable(place.path, sync=sync)
    if place.format == "delta":
        return DeltaLake(place.path, sync=sync, options=place.options)
    if place.format == "iceberg":
        return IcebergLake(place, sync=sync)
    raise LakeError(
        f"lake {place.path}: the format {place.format!r} is unknown to this release; continue with the release that has written "
        "it"
    )


def opener(lakes: Iterable[Lake], *, sync: bool) -> Callable[[str, str], Table]:
    """Opens tables by their path and format, each once, with the options of the steps that write to them."""
    places = {lake.path: place_of(lake) for lake in lakes}
    tables: dict[tuple[str, str], Table] = {}

    def opened(path: str, form: str) -> Table:
        if (path, form) not in tables:
            place = places.get(path)
            if place is None or place.format != form:
                place = Place(path, form)  # The application no longer writes to it.
            tables[path, form] = open_table(place, sync=sync)
        return tables[path, form]

    return opened


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
