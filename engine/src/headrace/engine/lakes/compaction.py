"""Joins the small files of a table, which micro-batches leave behind, while applications write to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.engine._errors import LakeError
from headrace.engine.lakes.iceberg_compaction import ICEBERG, compact_iceberg
from headrace.engine.lakes.objects import INSTALL, readable, reason_of
from headrace.pipelines.runtime import is_in_store


@dataclass(frozen=True, slots=True)
class Compaction:
    """The result of a compaction.

    Attributes:
        read: How many files it has joined.
        written: How many files have their rows now.
    """

    read: int
    written: int


def compact_lake(path: str, *, file_bytes: int, options: Mapping[str, str] | None = None) -> Compaction:
    """Joins the small files of a table in one commit of its log or catalog, which a reader sees whole or not at all.

    Lakes that write meanwhile lose nothing: they append only, and their marks stay. The files that were joined stay, too, until
    somebody vacuums the table, or expires its snapshots.

    Args:
        path: The folder of a Delta table, its place on S3 or HDFS, or `iceberg:` and the name of an Iceberg table.
        file_bytes: The size up to which files are joined.
        options: Storage options of deltalake, or properties of pyiceberg's catalog, beside the environment.

    Raises:
        LakeError: It is no such table, or cannot be compacted.
        OSError: The storage failed.
    """
    given = dict(options or {})
    if path.startswith(ICEBERG):
        return Compaction(*compact_iceberg(path, file_bytes, given))
    try:
        import deltalake
        from deltalake.exceptions import DeltaError
    except ImportError:
        raise LakeError(INSTALL) from None
    try:
        with readable():
            if not deltalake.DeltaTable.is_deltatable(path, storage_options=given):
                raise LakeError(_no_log(path))
            done = deltalake.DeltaTable(path, storage_options=given).optimize.compact(target_size=file_bytes)
    except DeltaError as error:
        raise LakeError(f"lake {path}: it cannot be compacted: {reason_of(error)}; call it again") from error
    return Compaction(done["numFilesRemoved"], done["numFilesAdded"])


def _no_log(path: str) -> str:
    names = [] if is_in_store(path) or not Path(path).is_dir() else [each.name for each in Path(path).iterdir()]
    if "metadata" in names:
        return f"lake {path} is an Iceberg table, whose catalog knows its files: name it as {ICEBERG}CATALOG.NAMESPACE.TABLE"
    if any(name.startswith("micro_batch=") for name in names):
        return (
            f"lake {path} has files of format='parquet' and no log: readers would find rows twice, or not at all, while files "
            "are exchanged. Write format='delta', or copy the table to another folder"
        )
    return f"lake {path}: there is no Delta table"
