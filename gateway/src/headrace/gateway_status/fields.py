"""Converts messages of the protocol to documents: each field of a document is the field of that name of its message.

So a field is named where the protocol declares it and where the document gives it a type, and nowhere in between. A document that
names a field which its message does not have fails when its module is imported. The words of enums are here too: a gateway of a
later release may send a value that this one does not know.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Generic, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

UNKNOWN = "unknown"
"""The word for a value that this release does not know."""


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(at: datetime, timespec: str = "milliseconds") -> str:
    """Returns a time in UTC as documents contain it."""
    return at.isoformat(timespec=timespec).replace("+00:00", "Z")


def since_1970(**duration: int) -> str:
    """Returns a time as documents contain it, from the `milliseconds` or `microseconds` since 1970.

    Raises:
        OverflowError: It is out of the range of the calendar.
    """
    return time_text(_EPOCH + timedelta(**duration))


_Document = TypeVar("_Document")
_Getter = Callable[[Any], Any]


class Fields(Generic[_Document]):
    """How a message becomes a document.

    Names, numbers and truth values stay what they are, bytes become base64, an enum becomes the word of the document's type, and
    lists, maps and messages are converted in the same way. An absent value or an empty text is None where the type allows it. A
    value of an enum that only a later release has becomes `unknown`.
    """

    def __init__(
        self,
        document: type[_Document],
        message: Descriptor,
        *extra: str,
        values_of: Callable[[Any], Mapping[str, object]] | None = None,
        inner: "Sequence[Fields[Any]]" = (),
    ) -> None:
        """Finds the field of each name.

        Args:
            document: The type of the document, a TypedDict.
            message: The message.
            extra: The fields that no field of the message is equal to: whoever converts gives them, or `values_of` returns them.
            values_of: Returns the values of extra fields, from the message.
            inner: How documents become of the messages within, where these have extra fields.

        Raises:
            TypeError: The message does not have a field, or cannot be absent as its type says.
        """
        hints = get_type_hints(document)
        self._empty: dict[str, object] = dict.fromkeys(hints)
        self._extra = extra
        self._values_of = values_of
        self.document = document
        self._plain: list[str] = []
        """The fields whose values stay what they are: read together, which takes half the time."""
        self._converted: list[tuple[str, _Getter]] = []
        for name in hints:
            where = f"{document.__name__}.{name}"
            if name in extra:
                continue
            if name not in message.fields_by_name:
                raise TypeError(f"{where}: {message.name} has no such field, and nobody passes its value")
            getter = _getter(hints[name], message.fields_by_name[name], where, {fields.document: fields for fields in inner})
            if getter is None:
                self._plain.append(name)
            else:
                self._converted.append((name, getter))
        self._read = _together(self._plain)

    def __call__(self, message: Message, values: Mapping[str, object] = MappingProxyType({})) -> _Document:
        """Converts a message.

        Args:
            message: The message.
            values: The values of the fields that are given.
        """
        document = self._empty.copy()
        document.update(zip(self._plain, self._read(message), strict=True))
        for name, get in self._converted:
            document[name] = get(message)
        all_values = values if self._values_of is None else {**self._values_of(message), **values}
        for name in self._extra:
            document[name] = all_values[name]
        return cast(_Document, document)


def _together(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Returns what reads several fields at once."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda message: tuple(getattr(message, name) for name in names)


def _getter(annotation: Any, field: FieldDescriptor, where: str, inner: Mapping[Any, Fields[Any]]) -> _Getter | None:
    """Returns what reads a field of a message; None if its value stays what it is."""
    get: _Getter = attrgetter(field.name)
    if field.is_repeated:
        return _of_many(annotation, field, get, inner)
    annotation, is_optional = _without_none(annotation)
    if not is_optional and field.enum_type is None and field.message_type is None and field.type != FieldDescriptor.TYPE_BYTES:
        return None
    read = _of_one(annotation, field, get, inner, is_optional=is_optional)
    if not is_optional or (field.enum_type is not None and not field.has_presence):
        return read
    name = field.name
    if field.has_presence:
        return lambda message: read(message) if message.HasField(name) else None
    if field.type == FieldDescriptor.TYPE_STRING:
        return lambda message: get(message) or None
    raise TypeError(f"{where} may be None, but {field.full_name} is never absent: declare it optional")


def _of_many(annotation: Any, field: FieldDescriptor, get: _Getter, inner: Mapping[Any, Fields[Any]]) -> _Getter:
    if field.message_type is None:
        return lambda message: list(get(message))
    if field.message_type.GetOptions().map_entry:
        return lambda message: dict(sorted(get(message).items()))
    (kind,) = get_args(annotation)
    one = inner.get(kind) or Fields[Any](kind, field.message_type, inner=tuple(inner.values()))
    return lambda message: [one(each) for each in get(message)]


def _of_one(
    annotation: Any, field: FieldDescriptor, get: _Getter, inner: Mapping[Any, Fields[Any]], *, is_optional: bool
) -> _Getter:
    if field.enum_type is not None:
        words = words_of(annotation, field.enum_type, is_optional=is_optional)
        return lambda message: words.get(get(message), UNKNOWN)
    if field.message_type is not None:
        document = inner.get(annotation) or Fields[Any](annotation, field.message_type, inner=tuple(inner.values()))
        return lambda message: document(get(message))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return lambda message: b64encode(get(message)).decode()
    return get


def words_of(annotation: Any, enum: EnumDescriptor, *, is_optional: bool = False) -> Mapping[int, str | None]:
    """Returns the word of each value of an enum. In the words of the document, a space or a dash may separate the parts."""
    known = {_key(word): word for word in get_args(annotation)} if get_origin(annotation) is Literal else {}
    (prefix,) = {value.name.removesuffix("UNSPECIFIED") for value in enum.values if value.number == 0}
    names = {value.number: value.name.removeprefix(prefix) for value in enum.values}
    words: dict[int, str | None] = {number: known.get(name, name.lower()) for number, name in names.items()}
    return words | {0: None if is_optional else UNKNOWN}


def _key(word: str) -> str:
    return word.upper().replace(" ", "_").replace("-", "_")


def _without_none(annotation: Any) -> tuple[Any, bool]:
    """Returns a type without None, and whether it allowed None."""
    if get_origin(annotation) not in (Union, UnionType):
        return annotation, False
    kept = [each for each in get_args(annotation) if each is not NoneType]
    return Union[tuple(kept)], len(kept) < len(get_args(annotation))  # noqa: UP007  # A tuple is only known here.
