"""Messages of Protocol Buffers as payload."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from headrace.pipelines._errors import GraphError
from headrace.pipelines.arguments import excerpt
from headrace.pipelines.formats._format import Format, check_is
from headrace.pipelines.formats._registry import Registry
from headrace.pipelines.formats._registry_protobuf import RegistryProtobuf, text_of_file
from headrace.pipelines.formats.records import M, is_protobuf
from headrace.pipelines.formats.registry_format import check_registry


@dataclass(frozen=True)
class Protobuf(Format[M]):
    """Messages of a class that protoc has generated."""

    kind: type[M] = Message  # type: ignore[assignment]

    @property
    def name(self) -> str:
        """The format, with the full name of the message."""
        return f"protobuf({self.kind.DESCRIPTOR.full_name})"

    def reader(self) -> Callable[[bytes], M]:
        """As `Format.reader`."""
        return self.kind.FromString

    def writer(self) -> Callable[[M], bytes]:
        """As `Format.writer`."""
        kind, name = self.kind, self.name

        def write(value: M) -> bytes:
            check_is(value, kind, name)
            return value.SerializeToString()

        return write


def protobuf(
    kind: type[M],
    *,
    registry: Registry | None = None,
    subject: str | None = None,
    register: bool = False,
    drop_null: bool = False,
) -> Format[M]:
    """Returns the format of messages of a class that protoc has generated.

    Args:
        kind: The class.
        registry: The registry, if payloads begin with the id of their schema, as Confluent's do.
        subject: The subject in the registry whose schema a sink writes with: `orders-value` for a topic; `{record}` in it is the
            full name of the message.
        register: Whether a sink registers the class's file, and each file that it imports in a subject of that file's path. By
            default, a sink writes with the subject's latest schema, which must have the message.
        drop_null: Whether a source drops messages without a payload.

    Raises:
        GraphError: It is not such a class, or an argument is missing.
    """
    if not is_protobuf(kind):
        wrong: Any = kind
        raise GraphError(f"protobuf() takes a class that protoc has generated, not {excerpt(wrong)}")
    check_registry("protobuf", registry, subject, register=register)
    if registry is None:
        return Protobuf(drop_null, kind)
    schema = text_of_file(kind.DESCRIPTOR.file) if register else None
    return RegistryProtobuf(drop_null, registry, subject, schema, kind, register)
