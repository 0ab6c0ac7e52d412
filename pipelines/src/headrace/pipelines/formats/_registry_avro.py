"""Avro records of schemas in a registry."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.pipelines.formats._column_reader import ColumnReader
from headrace.pipelines.formats._format import BlockReader, T
from headrace.pipelines.formats._registry import WriterSchema
from headrace.pipelines.formats.avro_schemas import name_in, parsed, record_reader, record_writer
from headrace.pipelines.formats.class_columns import ClassColumns, class_columns, with_columns
from headrace.pipelines.formats.registry_columns import RegistryColumns, registry_columns, registry_columns_of_class
from headrace.pipelines.formats.registry_format import PREFIX_BYTES, RegistryFormat


@dataclass(frozen=True)
class RegistryAvro(RegistryFormat[T]):
    """Avro of schemas in a registry; without a type, as dicts. A source reads as `schema` if there is one."""

    TYPE = "AVRO"

    def record_name(self) -> str:
        """The full name of the record."""
        return name_in(json.loads(self.schema or "null"))

    def reader_of(self, schema: WriterSchema, where: Callable[[], str]) -> Callable[[bytes], Any]:
        """As `RegistryFormat.reader_of`."""
        reader = None if self.schema is None else parsed(json.loads(self.schema))
        return record_reader(self.name, _parsed(schema), reader, self.kind, begin=PREFIX_BYTES, where=where)

    def writer_of(self, schema: WriterSchema, prefix: bytes) -> Callable[[T], bytes]:
        """As `RegistryFormat.writer_of`."""
        return record_writer(self.name, _parsed(schema), self.kind, prefix)

    def columns(self) -> ColumnReader:
        """As `Format.columns`; without a class, the columns of the schema to read as."""
        if self.kind is None and self.schema is not None:
            return registry_columns(self, self.schema)
        columns = class_columns(self.kind)
        return super().columns() if columns is None else self._at_once(columns)

    def block_reader(self, read: Callable[[bytes], T | None]) -> BlockReader[T] | None:
        """As `Format.block_reader`. Whoever reads a payload alone names the message for which the registry did not answer."""
        columns = class_columns(self.kind)
        if columns is None:
            return None
        return with_columns(self.kind, columns, self._at_once(columns).known_rows, lambda payloads: None)

    def _at_once(self, columns: ClassColumns) -> RegistryColumns:
        return registry_columns_of_class(self, self.schema, columns, super().columns())


def _parsed(schema: WriterSchema) -> Any:
    return parsed(json.loads(schema.text), list(map(json.loads, schema.references)))
