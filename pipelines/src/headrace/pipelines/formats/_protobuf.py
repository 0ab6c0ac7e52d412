"""Messages of Protocol Buffers as payload."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.message import Message

from headrace.pipelines._errors import GraphError
from headrace.pipelines.arguments import excerpt
from headrace.pipelines.formats._format import Format, check_is
from headrace.pipelines.formats.records import is_protobuf

M = TypeVar("M", bound=Message)


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


def protobuf(kind: type[M], *, drop_null: bool = False) -> Protobuf[M]:
    """Returns the format of messages of a class that protoc has generated.

    Raises:
        GraphError: It is not such a class.
    """
    if not is_protobuf(kind):
        wrong: Any = kind
        raise GraphError(f"protobuf() takes a class that protoc has generated, not {excerpt(wrong)}")
    return Protobuf(drop_null, kind)
