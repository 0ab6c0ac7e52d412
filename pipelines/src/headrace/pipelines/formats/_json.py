"""JSON as payload."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, TypeVar, overload

import msgspec
from google.protobuf import json_format

from headrace.pipelines._errors import FormatError, GraphError
from headrace.pipelines.formats._format import Format, T, check_is
from headrace.pipelines.formats._registry import Registry
from headrace.pipelines.formats._registry_json import RegistryJson, schema_text
from headrace.pipelines.formats.records import called, is_protobuf, is_pydantic, taker, validating
from headrace.pipelines.formats.registry_format import check_registry

U = TypeVar("U")
Schema = str | Mapping[str, Any]
"""A JSON schema: a document, or its JSON text."""


@dataclass(frozen=True)
class Json(Format[T]):
    """JSON of a type; without one, dicts, lists, text, numbers and booleans."""

    kind: Any = None

    @overload
    def __call__(
        self,
        kind: type[U],
        *,
        registry: Registry | None = None,
        subject: str | None = None,
        schema: Schema | None = None,
        register: bool = False,
        drop_null: bool = False,
    ) -> Format[U]: ...

    @overload
    def __call__(
        self,
        kind: UnionType | None = None,
        *,
        registry: Registry | None = None,
        subject: str | None = None,
        schema: Schema | None = None,
        register: bool = False,
        drop_null: bool = False,
    ) -> Format[Any]: ...

    def __call__(
        self,
        kind: Any = None,
        *,
        registry: Registry | None = None,
        subject: str | None = None,
        schema: Schema | None = None,
        register: bool = False,
        drop_null: bool = False,
    ) -> Format[Any]:
        """Returns the format of a type.

        Args:
            kind: A dataclass, `NamedTuple`, `TypedDict`, msgspec `Struct`, pydantic model or generated protobuf class, or a type
                made of them, such as `list[Order]` or, of tagged Structs, `Payment | Verdict`. Fields that the class does not
                have are ignored unless the class forbids them.
            registry: The registry, if payloads begin with the id of their schema, as Confluent's do.
            subject: The subject in the registry whose schema a sink writes with: `orders-value` for a topic; `{record}` in it is
                the title of the schema, or the name of the class.
            schema: The JSON schema that a sink writes with, as a document or its JSON text. By default the subject's latest, or
                the class's own if it shall be registered.
            register: Whether a sink registers the schema in the subject. By default, the subject must contain it already.
            drop_null: Whether a source drops messages with null, or without a payload.

        Raises:
            GraphError: A type is not one that JSON can be read into, or an argument is missing.
        """
        made: Json[Any] = Json(drop_null, kind)
        try:
            made.reader()
        except Exception as error:
            raise GraphError(f"{made.name}: {error}") from error
        check_registry("json", registry, subject, register=register)
        if registry is None:
            if schema is not None:
                raise GraphError("json(): schema needs a registry")
            return made
        text = schema_text(schema, kind, register=register)
        return RegistryJson(drop_null, registry, subject, text, kind, register, made)

    @property
    def name(self) -> str:
        """The format, with its type."""
        return "json" if self.kind is None else f"json({called(self.kind)})"

    def reader(self) -> Callable[[bytes], T | None]:
        """As `Format.reader`."""
        kind = self.kind
        if is_protobuf(kind):
            return lambda payload: json_format.Parse(payload, kind())
        admitted = Any if kind is None else kind | None if self.drop_null else kind
        if is_pydantic(kind):
            from pydantic import TypeAdapter

            return validating(TypeAdapter(admitted).validate_json)
        decoder: msgspec.json.Decoder[T | None] = msgspec.json.Decoder(admitted)
        return decoder.decode

    def writer(self) -> Callable[[T], bytes]:
        """As `Format.writer`."""
        kind, name, encode = self.kind, self.name, msgspec.json.Encoder().encode
        if is_protobuf(kind):

            def write_message(value: Any) -> bytes:
                check_is(value, kind, name)
                return json_format.MessageToJson(value, indent=None).encode()

            return write_message
        plain = taker(kind) if is_pydantic(kind) else None

        def write(value: T) -> bytes:
            if kind is not None:
                check_is(value, kind, name)
            payload = encode(value if plain is None else plain(value))
            if b"null" in payload:
                # The encoder writes numbers that JSON does not have as null.
                for path in _not_finite(msgspec.to_builtins(value if plain is None else plain(value)), "$"):
                    raise FormatError(f"{name}: JSON has no NaN and no infinity - at `{path}`")
            return payload

        return write


def _not_finite(plain: Any, path: str) -> Iterator[str]:
    """Yields where numbers are that JSON does not have."""
    if isinstance(plain, float):
        if not math.isfinite(plain):
            yield path
    elif isinstance(plain, dict):
        for name, value in plain.items():
            yield from _not_finite(value, f"{path}.{name}")
    elif isinstance(plain, list | tuple):
        for index, value in enumerate(plain):
            yield from _not_finite(value, f"{path}[{index}]")


json: Json[Any] = Json()
"""JSON without a type. `json(Order)` is JSON of a class."""
