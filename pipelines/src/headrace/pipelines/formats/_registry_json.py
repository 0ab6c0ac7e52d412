"""JSON of schemas in a registry."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from headrace.pipelines._errors import FormatError, GraphError, text_of
from headrace.pipelines.arguments import excerpt
from headrace.pipelines.formats._format import Format, T
from headrace.pipelines.formats._registry import WriterSchema
from headrace.pipelines.formats.records import called, is_protobuf, is_pydantic
from headrace.pipelines.formats.registry_format import PREFIX_BYTES, RegistryFormat

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
"""What msgspec and pydantic write. Without it, Apicurio does not take a document for a JSON schema."""


@dataclass(frozen=True)
class RegistryJson(RegistryFormat[T]):
    """JSON of schemas in a registry. Its class decides what is read and written; the schema is not looked at.

    Attributes:
        plain: The JSON behind the id.
    """

    plain: Format[T] | None = None

    TYPE = "JSON"

    def without_class(self) -> Format[Any]:
        """As `Format.without_class`."""
        assert self.plain is not None, "json() passes it"
        return replace(self, kind=None, plain=self.plain.without_class())

    def record_name(self) -> str:
        """The title in the schema, or the name of the class."""
        return str(json.loads(self.schema or "{}").get("title") or called(self.kind))

    def reader_of(self, schema: WriterSchema, where: Callable[[], str]) -> Callable[[bytes], Any]:
        """As `RegistryFormat.reader_of`."""
        assert self.plain is not None, "json() passes it"
        read_json = self.plain.reader()

        def read(payload: bytes) -> Any:
            try:
                return read_json(payload[PREFIX_BYTES:])
            except Exception as error:
                raise FormatError(f"{self.name}: {where()}{text_of(error)}") from error

        return read

    def writer_of(self, schema: WriterSchema, prefix: bytes) -> Callable[[T], bytes]:
        """As `RegistryFormat.writer_of`."""
        assert self.plain is not None, "json() passes it"
        write_json = self.plain.writer()
        return lambda value: prefix + write_json(value)


def schema_text(schema: str | Mapping[str, Any] | None, kind: Any, *, register: bool) -> str | None:
    """Returns the schema to write with: the one that is given, else the class's own if it shall be registered.

    Raises:
        GraphError: It is invalid, or the class has none.
    """
    try:
        if schema is not None:
            document = json.loads(schema) if isinstance(schema, str) else dict(schema)
            if not isinstance(document, dict):
                raise TypeError("a schema is an object")
            return json.dumps(document)
        return json.dumps(_schema_of(kind)) if register else None
    except Exception as error:
        what = f"the schema {excerpt(schema)} is invalid" if schema is not None else f"{called(kind)} has no JSON schema"
        raise GraphError(f"json(): {what}: {type(error).__name__}: {text_of(error)}") from error


def _schema_of(kind: Any) -> dict[str, Any]:
    if kind is None or is_protobuf(kind):
        raise TypeError("register needs the schema: json(..., schema=...)")
    if is_pydantic(kind):
        from pydantic import TypeAdapter

        return {"$schema": _DRAFT, **TypeAdapter(kind).json_schema()}
    return {"$schema": _DRAFT, "title": called(kind), **msgspec.json.schema(kind)}
