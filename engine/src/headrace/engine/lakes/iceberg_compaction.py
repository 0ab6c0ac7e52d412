"""Joins the small files of an Iceberg table in one snapshot, beside writers who append or delete meanwhile.

Files are written first, which no snapshot names. The commit replaces the files whose rows they have, if all of these are in the
table as they were; otherwise the joined file is deleted. So a compaction that dies changes no row, and leaves such files at most.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.engine._errors import LakeError
from headrace.engine.iceberg_catalogs import open_catalog
from headrace.engine.lakes.iceberg_files import described
from headrace.engine.lakes.iceberg_lake import INSTALL, LAST_VERSION, MAX_ATTEMPTS, RETRIES
from headrace.engine.lakes.objects import reason_of
from headrace.engine.lakes.task_files import GROUP_BYTES, GROUP_ROWS

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table

ICEBERG = "iceberg:"


@dataclass(frozen=True, slots=True)
class _Join:
    """A written file, and the files whose rows it has."""

    read: tuple["DataFile", ...]
    written: "DataFile"


def compact_iceberg(path: str, file_bytes: int, options: Mapping[str, str]) -> tuple[int, int]:
    """Joins files of an Iceberg table; returns how many it has joined, and how many have their rows now.

    Args:
        path: `iceberg:` and the name of the table, as `catalog.namespace.table`.
        file_bytes: The size up to which files are joined.
        options: Properties of the catalog, beside pyiceberg's configuration.

    Raises:
        LakeError: There is no such table, or it cannot be compacted.
        OSError: The storage failed.
    """
    if find_spec("pyiceberg") is None:
        raise LakeError(INSTALL)
    catalog, _, name = path.removeprefix(ICEBERG).partition(".")
    joins: list[_Join] = []
    try:
        opened = open_catalog(catalog, options)
        table = opened.load_table(name)
        if table.metadata.format_version > LAST_VERSION:
            raise LakeError(
                f"lake {path} has version {table.metadata.format_version} of Iceberg: call rewrite_data_files in Spark"
            )
        try:
            for tasks in _groups(table, file_bytes):
                joins.append(_Join(tuple(task.file for task in tasks), _written(table, tasks)))
        except BaseException:
            _discard(table, joins)
            raise
        done = _committed(path, lambda: opened.load_table(name), joins) if joins else []
    except (LakeError, OSError):
        raise
    except Exception as error:  # A catalog raises what its server, its database or its client does.
        raise LakeError(f"lake {path}: it cannot be compacted: {type(error).__name__}: {reason_of(error)}") from error
    return sum(len(join.read) for join in done), len(done)


def _groups(table: "Table", file_bytes: int) -> Iterator[list["FileScanTask"]]:
    """The files to join: small ones of one partition, of which no row is deleted."""
    spec, waiting = table.spec(), dict[Any, list["FileScanTask"]]()
    for task in sorted(table.scan().plan_files(), key=lambda task: task.file.file_path):
        file = task.file
        if task.delete_files or file.spec_id != spec.spec_id or file.file_size_in_bytes >= file_bytes:
            continue
        values = tuple(file.partition[number] for number in range(len(spec.fields)))
        group = waiting.setdefault(values, [])
        if sum(each.file.file_size_in_bytes for each in group) + file.file_size_in_bytes > file_bytes:
            yield from (some for some in [waiting.pop(values)] if len(some) > 1)
            group = waiting.setdefault(values, [])
        group.append(task)
    yield from (group for group in waiting.values() if len(group) > 1)


def _written(table: "Table", tasks: Sequence["FileScanTask"]) -> "DataFile":
    """Writes the rows of files to one file, which no snapshot names yet."""
    import pyarrow.parquet as pq
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    uri = table.location_provider().new_data_location(f"headrace-compacted-{uuid.uuid4().hex}.parquet")
    schema = schema_to_pyarrow(table.schema())
    try:
        with table.io.new_output(uri).create() as stream, pq.ParquetWriter(stream, schema, compression="zstd") as writer:
            for rows in _row_groups(_rows(table, tasks), schema):
                writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        found = table.io.new_input(uri)
        with found.open() as opened:
            footer = pq.read_metadata(opened)
        return described(table.metadata, uri, len(found), tasks[0].file.partition, footer)
    except BaseException:
        with suppress(OSError):
            table.io.delete(uri)
        raise


def _rows(table: "Table", tasks: Sequence["FileScanTask"]) -> Iterator[pa.RecordBatch]:
    """The rows of files in the table's present columns, of one file after another, so that only one is in memory."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    for task in tasks:
        yield from ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_record_batches([task])


def _row_groups(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    for batch in batches:
        waiting.append(pa.Table.from_batches([batch]).cast(schema))
        if sum(len(each) for each in waiting) >= GROUP_ROWS or sum(each.nbytes for each in waiting) >= GROUP_BYTES:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _committed(path: str, load: Any, joins: Sequence[_Join]) -> Sequence[_Join]:
    """Replaces files in one snapshot; returns the joins that are part of the table. The files of others are deleted."""
    from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

    reason, is_unknown = "", False
    for _ in range(MAX_ATTEMPTS):
        table = load()
        present = {task.file.file_path: task for task in table.scan().plan_files()}
        if done := [join for join in joins if is_unknown and join.written.file_path in present]:
            return done
        kept = [join for join in joins if all(_is_whole(present.get(file.file_path)) for file in join.read)]
        if not is_unknown:  # Else a snapshot may name their files.
            _discard(table, [join for join in joins if join not in kept])
        joins = kept
        if not joins:
            return []
        try:
            # Else pyiceberg repeats the commit behind a faster one, without a look at what that has deleted.
            table.metadata.properties[RETRIES] = "0"
            with table.transaction() as transaction, transaction.update_snapshot().overwrite() as update:
                for join in joins:
                    update.append_data_file(join.written)
                    for file in join.read:
                        update.delete_data_file(file)
            return joins
        except CommitFailedException as error:
            reason = reason_of(error)  # Another writer was faster: look again.
        except CommitStateUnknownException as error:
            reason, is_unknown = reason_of(error), True
    raise LakeError(f"lake {path}: it cannot be compacted, since other writers change it: {reason}; call it again")


def _is_whole(task: "FileScanTask | None") -> bool:
    return task is not None and not task.delete_files


def _discard(table: "Table", joins: Sequence[_Join]) -> None:
    for join in joins:
        with suppress(OSError):
            table.io.delete(join.written.file_path)
