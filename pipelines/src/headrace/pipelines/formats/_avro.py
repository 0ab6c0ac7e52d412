"""Avro records without a container as payload."""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any, TypeVar, cast, overload

from headrace.pipelines._errors import FormatError, GraphError, text_of
from headrace.pipelines.arguments import excerpt
from headrace.pipelines.formats._format import Format, T, called, check_is
from headrace.pipelines.formats.records import is_protobuf, maker, taker

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
        return f"avro({called(self.kind) if self.kind is not None else _name_in(json.loads(self.schema))})"

    @cached_property
    def parsed(self) -> Any:
        """The schema, as fastavro uses it."""
        import fastavro

        return fastavro.parse_schema(json.loads(self.schema))

    def reader(self) -> Callable[[bytes], T | None]:
        """As `Format.reader`."""
        import fastavro

        schema, make, name = self.parsed, None if self.kind is None else maker(self.kind), self.name
        read_record = fastavro.schemaless_reader

        def read(payload: bytes) -> T | None:
            stream = io.BytesIO(payload)
            try:
                plain = read_record(stream, schema, None)
            except Exception as error:
                raise FormatError(f"{name}: {_where(schema, payload)}: {_reason(error)}") from error
            if stream.tell() != len(payload):
                left = len(payload) - stream.tell()
                raise FormatError(f"{name}: {left} bytes are left after the record; it was written with another schema")
            return cast(T, plain if make is None or plain is None else make(plain))

        return read

    def writer(self) -> Callable[[T], bytes]:
        """As `Format.writer`."""
        import fastavro

        schema, kind, name = self.parsed, self.kind, self.name
        take = None if kind is None else taker(kind)

        def write(value: T) -> bytes:
            if kind is not None:
                check_is(value, kind, name)
            stream = io.BytesIO()
            # Strictly: a field that the schema does not have would be lost, one that is missing would be a default.
            fastavro.schemaless_writer(stream, schema, value if take is None else take(value), strict_allow_default=True)
            return stream.getvalue()

        return write


@overload
def avro(schema: Schema, kind: type[U], *, drop_null: bool = False) -> Avro[U]: ...


@overload
def avro(schema: Schema, kind: None = None, *, drop_null: bool = False) -> Avro[Any]: ...


def avro(schema: Schema, kind: Any = None, *, drop_null: bool = False) -> Avro[Any]:
    """Returns the format of Avro records that were written with a schema, each without a container.

    Args:
        schema: The schema, as a document, its JSON text, or the name of a primitive type.
        kind: The class of the values: a dataclass, `NamedTuple`, `TypedDict`, msgspec `Struct` or pydantic model. By default,
            values are dicts.
        drop_null: Whether a source drops messages with null, or without a payload.

    Raises:
        GraphError: The schema is invalid, or fastavro is not installed.
    """
    if find_spec("fastavro") is None:
        raise GraphError("avro() needs fastavro: pip install 'headrace-pipelines[avro]'")
    if is_protobuf(kind):
        raise GraphError(f"avro(): values cannot be of the protobuf class {called(kind)}; take a dataclass, or no class")
    try:
        document = json.loads(schema if isinstance(schema, str) and not schema.isidentifier() else json.dumps(schema))
        made: Avro[Any] = Avro(drop_null, json.dumps(document), kind)
        made.parsed  # noqa: B018
        made.reader()
    except Exception as error:
        raise GraphError(f"avro(): the schema {excerpt(schema)} is invalid: {type(error).__name__}: {text_of(error)}") from error
    return made


def _name_in(document: Any) -> str:
    if isinstance(document, dict):
        return str(document.get("name") or document.get("type"))
    return "union" if isinstance(document, list) else str(document)


def _where(schema: Any, payload: bytes) -> str:
    """Returns the field of a record at which reading a payload fails."""
    import fastavro

    if not isinstance(schema, dict) or schema.get("type") != "record":
        return "the payload is not of this schema"
    names = dict[str, Any]()
    fastavro.parse_schema(schema, named_schemas=names, _force=True)
    stream = io.BytesIO(payload)
    for field in schema["fields"]:
        try:
            fastavro.schemaless_reader(stream, fastavro.parse_schema(field["type"], named_schemas=dict(names)), None)
        except Exception:
            return f"field {field['name']}"
    return "the payload is not of this schema"


def _reason(error: Exception) -> str:
    return "the payload ends there" if isinstance(error, EOFError) else text_of(error) or type(error).__name__
