"""Avro records that begin with the id of their schema in a registry: Confluent's wire format."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from headrace.pipelines._errors import FormatError
from headrace.pipelines.formats._format import Format, T, called
from headrace.pipelines.formats._registry import Registry
from headrace.pipelines.formats.avro_schemas import name_in, parsed, record_reader, record_writer

_MAGIC = 0
_PREFIX_BYTES = 5
"""A zero byte and the id, in four bytes from the highest."""


@dataclass(frozen=True)
class RegistryAvro(Format[T]):
    """Avro of schemas in a registry, as objects of a type; without a type, as dicts.

    Attributes:
        registry: The registry.
        subject: The subject of the schema that a sink writes with; `{record}` in it is the full name of the record.
        schema: The schema to read as and to write with, as JSON text. By default, values are read as they were written, and
            written with the subject's latest schema.
        kind: The class of the values.
        register: Whether a sink registers its schema.
    """

    registry: Registry | None = None
    subject: str | None = None
    schema: str | None = None
    kind: Any = None
    register: bool = False

    @property
    def name(self) -> str:
        """The format, with the type or the subject."""
        return f"avro({called(self.kind) if self.kind is not None else self.subject or 'registry'})"

    def reader(self) -> Callable[[bytes], T | None]:
        """As `Format.reader`."""
        readers = dict[int, Callable[[bytes], Any]]()
        name = self.name

        def read(payload: bytes) -> T | None:
            if len(payload) < _PREFIX_BYTES or payload[0] != _MAGIC:
                raise FormatError(f"{name}: the payload does not begin with the id of a schema: a zero byte and four bytes")
            schema_id = int.from_bytes(payload[1:_PREFIX_BYTES])
            if schema_id not in readers:
                readers[schema_id] = self._reader_of(schema_id)
            return cast(T | None, readers[schema_id](payload))

        return read

    def writer(self) -> Callable[[T], bytes]:
        """As `Format.writer`."""
        writers = list[Callable[[T], bytes]]()

        def write(value: T) -> bytes:
            if not writers:
                schema, prefix = self._written_with()
                writers.append(record_writer(self.name, schema, self.kind, prefix))
            return writers[0](value)

        return write

    def _reader_of(self, schema_id: int) -> Callable[[bytes], Any]:
        assert self.registry is not None, "avro() makes it with a registry"
        registry = self.registry
        try:
            found = registry.schema(schema_id)
        except FormatError as error:
            raise FormatError(f"{self.name}: {error}") from error

        def where() -> str:
            subjects = registry.subjects(schema_id)
            return f"schema {schema_id}{f' of subject {subjects}' if subjects else ''}: "

        writer = parsed(found.document, found.references)
        reader = None if self.schema is None else parsed(json.loads(self.schema))
        return record_reader(self.name, writer, reader, self.kind, begin=_PREFIX_BYTES, where=where)

    def _written_with(self) -> tuple[Any, bytes]:
        """Returns the schema that a sink writes with, and the bytes that each payload begins with."""
        assert self.registry is not None, "avro() makes it with a registry"
        if self.subject is None:
            raise FormatError(f"{self.name}: a sink needs the subject of its schema: avro(..., subject='orders-value')")
        if self.schema is None:
            found = self.registry.latest(self.subject)
            return parsed(found.document, found.references), prefix_of(found.id)
        document = json.loads(self.schema)
        subject = self.subject.replace("{record}", name_in(document))
        schema_id = self.registry.id_of(subject, self.schema, register=self.register)
        return parsed(document), prefix_of(schema_id)


def prefix_of(schema_id: int) -> bytes:
    """Returns the bytes with which a payload of a schema begins."""
    return bytes([_MAGIC]) + schema_id.to_bytes(4)
