"""Protocol Buffers of schemas in a registry: behind the id, the place of the message in its file."""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

from headrace.pipelines._errors import FormatError, text_of
from headrace.pipelines.formats._format import check_is
from headrace.pipelines.formats._registry import WriterSchema
from headrace.pipelines.formats.records import M
from headrace.pipelines.formats.registry_format import PREFIX_BYTES, RegistryFormat

_BUILT_IN = ("google/protobuf/", "google/type/", "confluent/")
"""Files that every registry knows."""
_MAX_DEPTH = 100
"""How deep messages may be nested; protoc permits fewer."""
Place = tuple[int, ...]
"""Where a message is in its file: its number, then its number in that message, and so on."""


@dataclass(frozen=True)
class RegistryProtobuf(RegistryFormat[M]):
    """Messages of a generated class, of schemas in a registry."""

    TYPE = "PROTOBUF"
    FORM = "serialized"

    @property
    def name(self) -> str:
        """The format, with the full name of the message."""
        return f"protobuf({self.record_name()})"

    def record_name(self) -> str:
        """The full name of the message."""
        return str(self.kind.DESCRIPTOR.full_name)

    def references(self) -> list[Any]:
        """The files that the class's file imports."""
        return self._references(self.kind.DESCRIPTOR.file)

    def reader_of(self, schema: WriterSchema, where: Callable[[], str]) -> Callable[[bytes], Any]:
        """As `RegistryFormat.reader_of`."""
        name, wanted, parse = self.name, self.record_name(), self.kind.FromString
        messages = _messages(schema.text)

        def read(payload: bytes) -> Any:
            try:
                place, begin = _read_place(payload, PREFIX_BYTES)
                # A registry that does not serialize its schemas cannot tell which message it is.
                if messages and messages.get(place) != wanted:
                    known = messages.get(place)
                    raise FormatError(f"the message is a {known}" if known else f"its file has no message {place}")
                return parse(payload[begin:])
            except (DecodeError, FormatError) as error:
                raise FormatError(f"{name}: {where()}{text_of(error)}") from error

        return read

    def writer_of(self, schema: WriterSchema, prefix: bytes) -> Callable[[M], bytes]:
        """As `RegistryFormat.writer_of`."""
        name, kind, wanted = self.name, self.kind, self.record_name()
        messages = _messages(schema.text)
        places = [place for place, message in messages.items() if message == wanted]
        if messages and not places:
            raise FormatError(f"{name}: schema {schema.id} has no such message; it has {', '.join(messages.values())[:200]}")
        own = _messages(text_of_file(kind.DESCRIPTOR.file))
        places = places or [place for place, message in own.items() if message == wanted]
        whole = prefix + _written(places[0])

        def write(value: M) -> bytes:
            check_is(value, kind, name)
            return whole + value.SerializeToString()

        return write

    def _references(self, file: Any) -> list[Any]:
        from confluent_kafka.schema_registry import Schema, SchemaReference

        references = []
        for other in file.dependencies:
            if not other.name.startswith(_BUILT_IN):
                schema = Schema(text_of_file(other), self.TYPE, self._references(other))
                self.of_registry().id_of(other.name, schema, register=self.register)
                version = self.of_registry().version_of(other.name, schema)
                references.append(SchemaReference(other.name, other.name, version))
        return references


def text_of_file(file: Any) -> str:
    """Returns a file as registries take it: its descriptor in base64."""
    return base64.b64encode(file.serialized_pb).decode()


def _messages(text: str) -> dict[Place, str]:
    """Returns the full names of a file's messages by place; nothing if the registry wrote it as source text."""
    file = FileDescriptorProto()
    try:
        file.ParseFromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError, ValueError):
        return {}
    found = dict[Place, str]()

    def walk(messages: Any, place: Place, scope: str) -> None:
        for number, message in enumerate(messages):
            found[(*place, number)] = f"{scope}{message.name}"
            walk(message.nested_type, (*place, number), f"{scope}{message.name}.")

    walk(file.message_type, (), f"{file.package}." if file.package else "")
    return found


def _read_place(payload: bytes, begin: int) -> tuple[Place, int]:
    """Returns the place of the message, and where the message begins."""
    count, begin = _read_varint(payload, begin)
    if count == 0:
        return (0,), begin
    if not 0 < count <= _MAX_DEPTH:
        raise FormatError(f"the payload does not name the message in its file: {count} numbers")
    place = list[int]()
    for _ in range(count):
        number, begin = _read_varint(payload, begin)
        place.append(number)
    return tuple(place), begin


def _read_varint(payload: bytes, begin: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if begin >= len(payload):
            break
        byte = payload[begin]
        begin += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), begin
    raise FormatError("the payload ends before its message, or does not name the message in its file")


def _written(place: Place) -> bytes:
    """Returns a place as in payloads: zigzag varints of the count and the numbers; one zero byte for the first message."""
    return b"\0" if place == (0,) else b"".join(map(_varint, (len(place), *place)))


def _varint(number: int) -> bytes:
    value, written = number << 1, bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])
