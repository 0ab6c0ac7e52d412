"""Columns by which a table is divided into partitions, and the folders that their values name."""

from collections.abc import Iterator, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from headrace.pipelines import arguments as check
from headrace.pipelines._errors import GraphError

if TYPE_CHECKING:
    import pyarrow as pa

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows without a value, as Hive and its readers name it."""
_FOLDER_BYTES = 240
"""How long the name of a folder may be; disks permit 255."""


def partition_columns(where: str, partition_by: Any, schema: "pa.Schema") -> tuple[str, ...]:
    """Returns the columns by which a table is divided.

    Raises:
        GraphError: They are no columns of the table, are all of its columns, or have types that name no folder.
    """
    import pyarrow as pa

    if isinstance(partition_by, str) or not isinstance(partition_by, Sequence):
        raise GraphError(f"{where}: partition_by is a list of columns, such as ['day'], not {check.excerpt(partition_by)}")
    types = pa.types
    for name in partition_by:
        if not isinstance(name, str) or name not in schema.names:
            raise GraphError(f"{where}: partition_by: the schema has no column {check.excerpt(name)}")
        kind = schema.field(name).type
        if not any(holds(kind) for holds in (types.is_string, types.is_signed_integer, types.is_boolean, types.is_date32)):
            raise GraphError(
                f"{where}: partition_by: the column {name} is of type {kind}; texts, signed integers, booleans and dates divide "
                "a table: add such a column"
            )
        if len(_folder(name, "x")) > _FOLDER_BYTES:
            raise GraphError(f"{where}: partition_by: the name of the column {name} is too long for a folder")
    if len(set(partition_by)) < len(partition_by) or len(partition_by) == len(schema.names):
        raise GraphError(f"{where}: partition_by names each column once, and leaves at least one to the files")
    return tuple(partition_by)


def check_partitions(batch: "pa.RecordBatch", columns: Sequence[str]) -> None:
    """Checks that the values of a table's partition columns name folders.

    Raises:
        ValueError: One does not; the text names the field.
    """
    for name in columns:
        for value in batch.column(name).unique().to_pylist():
            if value in ("", NO_VALUE):
                raise ValueError(f"field {name} is {value!r}, which readers take for None: a table cannot be divided by it")
            if len(_folder(name, value)) > _FOLDER_BYTES:
                raise ValueError(f"field {name}: {check.excerpt(value)} is too long for the name of a folder")


def divided(batch: "pa.RecordBatch", columns: Sequence[str]) -> "Iterator[tuple[str, pa.RecordBatch]]":
    """Yields the rows of each partition in their order, without its columns, and the partition's folder."""
    import pyarrow as pa

    if not columns:
        yield "", batch
        return
    keys = [str(number) for number in range(len(columns))]
    numbered = pa.table([*map(batch.column, columns), pa.array(range(len(batch)))], names=[*keys, "row"])
    rest = batch.select([name for name in batch.schema.names if name not in columns])
    for group in numbered.group_by(keys, use_threads=False).aggregate([("row", "list")]).to_pylist():
        folder = "/".join(_folder(name, group[key]) for name, key in zip(columns, keys, strict=True))
        yield folder, rest.take(pa.array(group["row_list"]))


def values_of(folder: str) -> dict[str, str | None]:
    """The values of a partition by column, as texts."""
    pairs = (part.partition("=") for part in folder.split("/") if part)
    return {unquote(name): None if value == NO_VALUE else unquote(value) for name, _, value in pairs}


def _folder(name: str, value: Any) -> str:
    return f"{quote(name, safe='')}={NO_VALUE if value is None else quote(_text(value), safe='')}"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else str(value)
