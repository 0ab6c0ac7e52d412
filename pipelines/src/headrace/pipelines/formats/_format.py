"""The base class of formats."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any, Generic, TypeVar, cast

from headrace.pipelines._errors import FormatError, GraphError, Unavailable, text_of
from headrace.pipelines.formats._column_reader import Block, ColumnReader, ObjectReader
from headrace.pipelines.formats._columns import columns_of
from headrace.pipelines.formats.records import calls_application

T = TypeVar("T")
BlockReader = Callable[[Sequence[Any]], list[T | None] | None]
"""Reads many payloads; see `Format.block_reader`."""


@dataclass(frozen=True)
class Format(ABC, Generic[T]):
    """How values of a type are read from payloads, and written as payloads.

    Attributes:
        drop_null: Whether a source drops a message without a payload (a tombstone) or with a null. Otherwise such a message is
            one that cannot be decoded, and the step's `on_error` decides.
    """

    drop_null: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The format with its type, as errors show it: `json(Order)`."""

    @abstractmethod
    def reader(self) -> Callable[[bytes], T | None]:
        """Returns the function that reads a payload; its result is None for a null. It may raise any exception."""

    @abstractmethod
    def writer(self) -> Callable[[T], bytes]:
        """Returns the function that writes a value as a payload. It may raise any exception."""

    def without_class(self) -> "Format[Any]":
        """Returns the same format, whose values are plain: dicts, lists, text and numbers."""
        changed: Any = self
        return cast(Format[Any], replace(changed, kind=None))

    @property
    def calls_application(self) -> bool:
        """Whether the reader calls what may not return, such as validators: each payload is read alone, and noted."""
        return calls_application(getattr(self, "kind", None))

    def block_reader(self, read: Callable[[bytes], T | None]) -> "BlockReader[T] | None":
        """Returns the function that reads many payloads in less time than `read` each, which the default calls for each.

        Its result is None if each must be read alone, and it may raise any exception then. None if they always must be.
        """
        return None if self.calls_application else lambda payloads: list(map(read, payloads))

    def decoder(self) -> "Decoder[T]":
        """Returns the function that a source calls with each payload.

        It returns None for a null if `drop_null` is true, and raises a `FormatError` for a payload that is not of this format.
        """
        return Decoder(self)

    def columns(self) -> ColumnReader:
        """Returns what reads many payloads at once, into a column for each field.

        Raises:
            GraphError: The format's values have no fields, or a field has a type without an Arrow column.
        """
        kind = getattr(self, "kind", None)
        if kind is None:
            raise GraphError(f"{self.name} has no columns: it needs a class with fields, or of Avro the schema to read as")
        columns = columns_of(kind)
        return ObjectReader(self.name, columns.schema, self.reader(), columns.batch)

    def column_decoder(self) -> "ColumnDecoder":
        """Returns the reader of a source's blocks, which may be sent to other processes.

        Raises:
            GraphError: The format has no columns, as for `columns`.
        """
        return ColumnDecoder(self)

    def encoder(self) -> Callable[[T], bytes]:
        """Returns the function that a sink calls with each value; it raises a `FormatError` for a value not of this format."""
        return _Encode(self)


class ColumnDecoder:
    """Reads the payloads of a block. Another process makes its own: a reader may not be sent there."""

    def __init__(self, format: Format[Any]) -> None:
        self._format, self._reader = format, format.columns()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._format,)

    def read(self, payloads: Sequence[bytes | None]) -> tuple[Block, dict[int, FormatError]]:
        """Returns the rows of payloads, and the error of each payload that is neither a row nor dropped, by its index.

        Raises:
            Unavailable: A registry, or another service of the format, did not answer.
        """
        block, name = self._reader.read(payloads), self._format.name
        errors = dict(block.errors)
        if not self._format.drop_null and len(block.there) + len(errors) < len(payloads):
            for index in set(range(len(payloads))).difference(block.there, errors):
                what = "the payload is null" if payloads[index] is not None else "the message has no payload"
                errors[index] = FormatError(f"{name}: {what}; drop_null=True drops such messages")
        return block, errors


class Decoder(Generic[T]):
    """The function that a source calls with each payload. Another process makes its own: a reader may not be sent there."""

    def __init__(self, format: Format[T]) -> None:
        self._format = format
        self._read, self._drops, self._name = format.reader(), format.drop_null, format.name
        self._read_block = format.block_reader(self._read)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._format,)

    def __call__(self, payload: bytes | None) -> T | None:
        if payload is None:
            if self._drops:
                return None
            raise FormatError(f"{self._name}: the message has no payload; drop_null=True drops such messages")
        try:
            value = self._read(payload)
        except (FormatError, Unavailable):
            raise
        except Exception as error:
            raise FormatError(f"{self._name}: {text_of(error)}") from error
        if value is None and not self._drops:
            raise FormatError(f"{self._name}: the payload is null; drop_null=True drops such messages")
        return value

    def at_once(self, payloads: Sequence[Any]) -> list[T | None] | None:
        """Returns the values of many payloads, in less time; None if each must be read alone, such as to find a faulty one.

        Joined payloads, read by one call of msgspec, take longer, since each joint must be checked.
        """
        try:
            values = None if self._read_block is None else self._read_block(payloads)
        except Exception:
            return None
        return values if values is None or self._drops or NoneType not in set(map(type, values)) else None


class _Encode(Generic[T]):
    """The function that a sink calls with each value. Another process makes its own."""

    def __init__(self, format: Format[T]) -> None:
        self._format = format
        self._write, self._name = format.writer(), format.name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._format,)

    def __call__(self, value: T) -> bytes:
        try:
            return self._write(value)
        except (FormatError, Unavailable):
            raise
        except Exception as error:
            raise FormatError(f"{self._name}: {text_of(error)}") from error


def check_is(value: object, kind: Any, name: str) -> None:
    """Checks that a value is of a format's class. Other types, such as `list[Order]`, are not checked.

    Raises:
        FormatError: It is of another class.
    """
    if isinstance(kind, type) and not hasattr(kind, "__args__") and not _fits(value, kind):
        raise FormatError(f"{name}: the value is of type {type(value).__name__}")


def _fits(value: object, kind: type) -> bool:
    try:
        return isinstance(value, kind)
    except TypeError:  # a TypedDict, whose values are dicts
        return isinstance(value, dict)
