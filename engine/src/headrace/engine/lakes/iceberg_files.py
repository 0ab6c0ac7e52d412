"""Files that tasks wrote, as an Iceberg table names them: with the values of their partition, and bounds from their footers."""

from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.engine.checkpoint.lake_batches import LakeFile
from headrace.pipelines.runtime import values_of

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import Record

_EPOCH = date(1970, 1, 1)


def data_file(metadata: "TableMetadata", file: LakeFile, uri: str, footer: Any) -> "DataFile":
    """A file of a table whose columns and partitions were checked.

    Args:
        metadata: The table.
        file: The file.
        uri: Where readers find it.
        footer: Its metadata, as pyarrow reads it.
    """
    from pyiceberg.typedef import Record

    schema = metadata.schema()
    values = values_of(file.folder)
    partition = [_value(str(schema.find_type(name)), value) for name, value in values.items()]
    return described(metadata, uri, file.bytes, Record(*partition), footer)


def described(metadata: "TableMetadata", uri: str, size: int, partition: "Record", footer: Any) -> "DataFile":
    """A file of a table, with the bounds of its columns.

    Args:
        metadata: The table.
        uri: Where readers find the file.
        size: Its size in bytes.
        partition: The values of its partition.
        footer: Its metadata, as pyarrow reads it.
    """
    from pyiceberg.io import pyarrow as library
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

    schema = metadata.schema()
    statistics = library.data_file_statistics_from_parquet_metadata(
        parquet_metadata=footer,
        stats_columns=library.compute_statistics_plan(schema, metadata.properties),
        parquet_column_mapping=library.parquet_path_to_id_mapping(schema),
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=uri,
        file_format=FileFormat.PARQUET,
        partition=partition,
        file_size_in_bytes=size,
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def plain(kind: pa.DataType) -> pa.DataType:
    """The type of Arrow that an Iceberg table gives a column: several types of Arrow are one of Iceberg."""
    types = pa.types
    if types.is_dictionary(kind):
        return plain(kind.value_type)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(_plain_field(kind.value_field, "element"))
    if types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field, "key"), _plain_field(kind.item_field, "value"))
    if types.is_struct(kind):
        return pa.struct([_plain_field(kind.field(number)) for number in range(kind.num_fields)])
    return kind


def _plain_field(field: "pa.Field[Any]", name: str = "") -> "pa.Field[Any]":
    return pa.field(name or field.name, plain(field.type), field.nullable)


def _value(kind: str, text: str | None) -> Any:
    """The value of a partition, as a manifest contains it."""
    if text is None or kind == "string":
        return text
    if kind == "boolean":
        return text == "true"
    return (date.fromisoformat(text) - _EPOCH).days if kind == "date" else int(text)
