"""Payloads that begin with the id of their schema in a registry: Confluent's wire format."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.pipelines._errors import FormatError, GraphError
from headrace.pipelines.formats._format import Format, T
from headrace.pipelines.formats._registry import Registry, WriterSchema
from headrace.pipelines.formats.records import called

PREFIX_BYTES = 5
"""A zero byte and the id, in four bytes from the highest."""


@dataclass(frozen=True)
class RegistryFormat(Format[T]):
    """Values of schemas in a registry, as objects of a type.

    Attributes:
        registry: The registry.
        subject: The subject of the schema that a sink writes with; `{record}` in it is the name that the schema has.
        schema: The schema to write with, as text. By default, a sink writes with the subject's latest schema.
        kind: The class of the values.
        register: Whether a sink registers its schema.
    """

    registry: Registry | None = None
    subject: str | None = None
    schema: str | None = None
    kind: Any = None
    register: bool = False

    TYPE: ClassVar[str]
    """The registry's name of the format."""
    FORM: ClassVar[str | None] = None
    """How the registry shall write a schema; None for its usual form."""

    @property
    def name(self) -> str:
        """The format, with the type or the subject."""
        return f"{self.TYPE.lower()}({called(self.kind) if self.kind is not None else self.subject or 'registry'})"

    @abstractmethod
    def reader_of(self, schema: WriterSchema, where: Callable[[], str]) -> Callable[[bytes], Any]:
        """Returns the function that reads whole payloads of a schema; `where` returns that schema, for an error, with a colon."""

    @abstractmethod
    def writer_of(self, schema: WriterSchema, prefix: bytes) -> Callable[[T], bytes]:
        """Returns the function that writes payloads of a schema, each with a prefix."""

    @abstractmethod
    def record_name(self) -> str:
        """Returns the name that `schema` has."""

    def references(self) -> list[Any]:
        """Returns the registry's references of `schema` to others, which it registers if it may."""
        return []

    @property
    def calls_application(self) -> bool:
        """True: whoever reads a payload alone names the message for which the registry did not answer."""
        return True

    def reader(self) -> Callable[[bytes], T | None]:
        """As `Format.reader`."""
        readers = dict[int, Callable[[bytes], Any]]()
        name = self.name

        def read(payload: bytes) -> Any:
            if len(payload) < PREFIX_BYTES or payload[0] != 0:
                raise FormatError(f"{name}: the payload does not begin with the id of a schema: a zero byte and four bytes")
            schema_id = int.from_bytes(payload[1:PREFIX_BYTES])
            if schema_id not in readers:
                readers[schema_id] = self._reader_of(schema_id)
            return readers[schema_id](payload)

        return read

    def writer(self) -> Callable[[T], bytes]:
        """As `Format.writer`."""
        writers = list[Callable[[T], bytes]]()

        def write(value: T) -> bytes:
            if not writers:
                schema = self._written_with()
                writers.append(self.writer_of(schema, prefix_of(schema.id)))
            return writers[0](value)

        return write

    def _reader_of(self, schema_id: int) -> Callable[[bytes], Any]:
        registry = self.of_registry()
        try:
            found = registry.schema(schema_id, self.FORM)
        except FormatError as error:
            raise FormatError(f"{self.name}: {error}") from error

        def where() -> str:
            subjects = registry.subjects(schema_id)
            return f"schema {schema_id}{f' of subject {subjects}' if subjects else ''}: "

        return self.reader_of(self._checked(found, where), where)

    def _written_with(self) -> WriterSchema:
        from confluent_kafka.schema_registry import Schema

        registry = self.of_registry()
        if self.subject is None:
            raise FormatError(f"{self.name}: a sink needs the subject of its schema: subject='orders-value'")
        if self.schema is None:
            return self._checked(registry.latest(self.subject, self.FORM), lambda: f"subject {self.subject}: ")
        subject = self.subject.replace("{record}", self.record_name())
        schema = Schema(self.schema, self.TYPE, self.references())
        return WriterSchema(registry.id_of(subject, schema, register=self.register), self.TYPE, self.schema)

    def _checked(self, schema: WriterSchema, where: Callable[[], str]) -> WriterSchema:
        if schema.type != self.TYPE:
            raise FormatError(f"{self.name}: {where()}the schema is of type {schema.type}; read it with the format of that type")
        return schema

    def of_registry(self) -> Registry:
        """Returns the registry."""
        assert self.registry is not None, "whoever makes the format has checked it"
        return self.registry


def prefix_of(schema_id: int) -> bytes:
    """Returns the bytes with which a payload of a schema begins."""
    return b"\0" + schema_id.to_bytes(4)


def check_registry(name: str, registry: Registry | None, subject: str | None, *, register: bool) -> None:
    """Checks a format's arguments that concern a registry.

    Raises:
        GraphError: Some need others.
    """
    if registry is None and (subject is not None or register):
        raise GraphError(f"{name}(): subject and register need a registry")
    if register and subject is None:
        raise GraphError(f"{name}(): register needs the schema and its subject")
