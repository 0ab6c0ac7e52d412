"""Objects of an application's classes, from and to plain values: dicts, lists, numbers, text, bytes and times."""

import dataclasses
import datetime
import decimal
import enum
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from google.protobuf.message import Message
from msgspec import inspect

from headrace.pipelines.arguments import excerpt

M = TypeVar("M", bound=Message)
_FACTORIES = (msgspec.NODEFAULT, list, dict, set, frozenset, bytearray, tuple)
"""Defaults of fields that call nothing of an application."""
_PLAIN = (bytes, datetime.datetime, datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, uuid.UUID)


def called(kind: Any) -> str:
    """Returns the name of a type, as its author writes it: `Order`, `list[Order]`."""
    return kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__args__") else excerpt(kind)


def is_protobuf(kind: Any) -> bool:
    """Returns whether a type is a class that protoc has generated."""
    return isinstance(kind, type) and issubclass(kind, Message)


def is_pydantic(kind: Any) -> bool:
    """Returns whether a type is a pydantic model, or a dataclass of pydantic. Pydantic is imported by whoever has made it."""
    return hasattr(kind, "__pydantic_validator__")


def is_object(value: Any) -> bool:
    """Returns whether a value is a dataclass, a Struct or a pydantic model, whose fields `taker` reads."""
    return dataclasses.is_dataclass(value) or isinstance(value, msgspec.Struct) or is_pydantic(type(value))


def calls_application(kind: Any) -> bool:
    """Returns whether making objects of a type may call functions of the application, such as validators and factories."""
    if kind is None or is_protobuf(kind):
        return False
    if is_pydantic(kind):
        return True
    try:
        pending = [inspect.type_info(kind)]
    except Exception:  # a type that msgspec does not know
        return True
    seen = set[int]()
    while pending:
        type_ = pending.pop()
        if id(type_) not in seen:
            seen.add(id(type_))
            if _calls(type_):
                return True
            pending += _inside(type_)
    return False


def _calls(type_: inspect.Type) -> bool:
    made, fields = getattr(type_, "cls", None), getattr(type_, "fields", ())
    if isinstance(type_, inspect.EnumType):
        return made._missing_.__func__ is not enum.Enum._missing_.__func__  # type: ignore[attr-defined, union-attr]
    if isinstance(type_, inspect.CustomType) or hasattr(made, "__post_init__"):
        return True
    return any(field.default_factory not in _FACTORIES for field in fields)


def _inside(type_: inspect.Type) -> list[inspect.Type]:
    """The types that a type is made of."""
    found = [getattr(type_, name, None) for name in ("type", "item_type", "key_type", "value_type")]
    found += [*getattr(type_, "types", ()), *getattr(type_, "item_types", ())]
    found += [field.type for field in getattr(type_, "fields", ())]
    return [one for one in found if isinstance(one, inspect.Type)]


def maker(kind: Any) -> Callable[[Any], Any]:
    """Returns the function that makes an object of a type from plain values, and names the field that does not fit."""
    if is_pydantic(kind):
        from pydantic import TypeAdapter

        return validating(TypeAdapter(kind).validate_python)
    return lambda plain: msgspec.convert(plain, type=kind)


def validating(validate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns a function of pydantic whose errors are a line with the first field that does not fit."""
    from pydantic import ValidationError

    def validated(value: Any) -> Any:
        try:
            return validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
            raise ValueError(f"{first['msg']} - at `${path}`") from error

    return validated


def taker(kind: Any) -> Callable[[Any], Any]:
    """Returns the function that turns an object of a type into plain values."""
    if is_pydantic(kind):
        from pydantic import TypeAdapter

        return TypeAdapter(kind).dump_python
    return lambda value: msgspec.to_builtins(value, builtin_types=_PLAIN)
