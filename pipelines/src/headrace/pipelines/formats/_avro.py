"""Avro records without a container as payload."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any, TypeVar, overload

from headrace.pipelines._errors import GraphError, text_of
from headrace.pipelines.arguments import excerpt
from headrace.pipelines.formats._avro_columns import AvroColumns, avro_columns, avro_columns_of_class
from headrace.pipelines.formats._column_reader import ColumnReader
from headrace.pipelines.formats._format import BlockReader, Format, T
from headrace.pipelines.formats._registry import Registry
from headrace.pipelines.formats._registry_avro import RegistryAvro
from headrace.pipelines.formats.avro_schemas import name_in, parsed, record_reader, record_writer
from headrace.pipelines.formats.class_columns import ClassColumns, class_columns, with_columns
from headrace.pipelines.formats.records import called, is_protobuf
from headrace.pipelines.formats.registry_format import check_registry

U = TypeVar("U")
Schema = str | Mapping[str, Any]
"""An Avro schema: a document, its JSON text, or the name of a primitive type."""


@dataclass(frozen=True)
class Avro(Format[T]):
    """Avro of a schema, as objects of a type; without a type, as dicts."""

    schema: str = ""
    """The schema, as JSON text."""
    kind: Any = None

    @property
    def name(self) -> str:
        """The format, with the type or the name in the schema."""
        return f"avro({called(self.kind) if self.kind is not None else name_in(json.loads(self.schema))})"

    @cached_property
    def parsed(self) -> Any:
        """The schema, as fastavro uses it."""
        return parsed(json.loads(self.schema))

    def reader(self) -> Callable[[bytes], T | None]:
        """As `Format.reader`."""
        return record_reader(self.name, self.parsed, None, self.kind)

    def writer(self) -> Callable[[T], bytes]:
        """As `Format.writer`."""
        return record_writer(self.name, self.parsed, self.kind)

    def columns(self) -> ColumnReader:
        """As `Format.columns`; without a class, the columns of the schema."""
        if self.kind is None:
            return avro_columns(self.name, self.schema)
        columns = class_columns(self.kind)
        return (self._at_once(columns) if columns is not None else None) or super().columns()

    def block_reader(self, read: Callable[[bytes], T | None]) -> BlockReader[T] | None:
        """As `Format.block_reader`."""
        each, columns = super().block_reader(read), class_columns(self.kind)
        reader = None if columns is None else self._at_once(columns)
        return each if columns is None or reader is None or each is None else with_columns(self.kind, columns, reader.rows, each)

    def _at_once(self, columns: ClassColumns) -> AvroColumns | None:
        return avro_columns_of_class(self.schema, columns, super().columns())


@overload
def avro(
    schema: Schema | None = None,
    kind: None = None,
    *,
    registry: Registry | None = None,
    subject: str | None = None,
    register: bool = False,
    drop_null: bool = False,
) -> Format[Any]: ...


@overload
def avro(
    schema: Schema | None = None,
    kind: type[U] = ...,
    *,
    registry: Registry | None = None,
    subject: str | None = None,
    register: bool = False,
    drop_null: bool = False,
) -> Format[U]: ...


def avro(
    schema: Schema | None = None,
    kind: Any = None,
    *,
    registry: Registry | None = None,
    subject: str | None = None,
    register: bool = False,
    drop_null: bool = False,
) -> Format[Any]:
    """Returns the format of Avro records, each without a container.

    Args:
        schema: The schema, as a document, its JSON text, or the name of a primitive type. With a registry, the schema to read as
            and to write with; by default, values are read as they were written, and written with the subject's latest schema.
        kind: The class of the values: a dataclass, `NamedTuple`, `TypedDict`, msgspec `Struct` or pydantic model. By default,
            values are dicts.
        registry: The registry, if payloads begin with the id of their schema, as Confluent's do.
        subject: The subject in the registry whose schema a sink writes with: `orders-value` for a topic, `{record}` for the full
            name of the record, or both: `orders-{record}`.
        register: Whether a sink registers `schema` in the subject. By default, the subject must contain the schema already.
        drop_null: Whether a source drops messages with null, or without a payload.

    Raises:
        GraphError: The schema is invalid, an argument is missing, or fastavro is not installed.
    """
    if find_spec("fastavro") is None:
        raise GraphError("avro() needs fastavro: pip install 'headrace-pipelines[avro]'")
    if is_protobuf(kind):
        raise GraphError(f"avro(): values cannot be of the protobuf class {called(kind)}; take a dataclass, or no class")
    text = None if schema is None else _valid(schema)
    check_registry("avro", registry, subject, register=register)
    if register and text is None:
        raise GraphError("avro(): register needs the schema and its subject")
    if registry is not None:
        return RegistryAvro(drop_null, registry, subject, text, kind, register)
    if text is None:
        raise GraphError("avro() needs a schema, or a registry")
    return Avro(drop_null, text, kind)


def _valid(schema: Schema) -> str:
    """Returns a schema as JSON text.

    Raises:
        GraphError: It is invalid.
    """
    try:
        document = json.loads(schema if isinstance(schema, str) and not schema.isidentifier() else json.dumps(schema))
        parsed(document)
    except Exception as error:
        raise GraphError(f"avro(): the schema {excerpt(schema)} is invalid: {type(error).__name__}: {text_of(error)}") from error
    return json.dumps(document)
