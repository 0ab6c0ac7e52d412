"""Avro records of schemas in a registry."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.pipelines.formats._column_reader import ColumnReader
from headrace.pipelines.formats._format import T
from headrace.pipelines.formats._registry import WriterSchema
from headrace.pipelines.formats.avro_schemas import name_in, parsed, record_reader, record_writer
from headrace.pipelines.formats.registry_columns import registry_columns
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
        if self.kind is not None or self.schema is None:
            return super().columns()
        return registry_columns(self, self.schema)


def _parsed(schema: WriterSchema) -> Any:
    return parsed(json.loads(schema.text), list(map(json.loads, schema.references)))
