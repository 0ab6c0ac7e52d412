"""Validates values against a model, whose fields may be sizes and durations. The messages state what to write instead."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from headrace.contract.names import nearest
from headrace.contract.units import UnitError, parse_duration, parse_size

M = TypeVar("M", bound=BaseModel)

_WORDING = {
    "missing": "is required",
    "extra_forbidden": "unknown key",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be text in quotes",
    "path_type": "must be text in quotes",
    "list_type": "must be a list in brackets",
    "tuple_type": "must be a list in brackets",
    "dict_type": "must be a table",
    "model_type": "must be a table",
}
_CHOICES = ("literal_error", "enum")
_QUOTED = re.compile(r"'([^']+)'")

Found = tuple[tuple[str | int, ...], str]
"""A key and what is wrong with its value."""
_Tables = dict[tuple[str, ...], list[str]]
"""The keys that each table may contain. A table in an array has the path of the array."""


def validated(model: type[M], values: Mapping[str, Any], known_keys: Sequence[str] = (), **context: Any) -> M | list[Found]:
    """Converts values to an instance of `model`, or returns the problems found.

    Messages do not contain values, which may be secret, unless a validator of the model includes them.

    Args:
        model: The model.
        values: The values, by key.
        known_keys: Dotted keys that are allowed besides the model's, and may be suggested.
        context: The context for the model's validators.
    """
    try:
        return model.model_validate(dict(values), context=context)
    except ValidationError as error:
        return list(_findings(error, model, known_keys))


def _findings(error: ValidationError, model: type[BaseModel], known_keys: Sequence[str]) -> Iterator[Found]:
    for detail in error.errors(include_url=False):
        kind, key, text = detail["type"], detail["loc"], detail["msg"]
        message = _WORDING.get(kind) or re.sub(r"^(Value|Assertion) error, ", "", text.replace("Input should be", "must be"))
        if kind == "extra_forbidden":
            message += _meant(key, model, known_keys)
        elif kind in _CHOICES and isinstance(detail["input"], str):
            message += nearest(detail["input"], _QUOTED.findall(text))
        yield key, message


def _meant(key: tuple[str | int, ...], model: type[BaseModel], known_keys: Sequence[str]) -> str:
    """Suggests the key that was probably meant: a similar one in the same table, or the same one in another table."""
    *table, name = (part for part in key if isinstance(part, str))
    tables = _tables(model)
    for dotted in known_keys:
        *outer, last = dotted.split(".")
        tables.setdefault(tuple(outer), []).append(last)
    if advice := nearest(name, tables.get(tuple(table), [])):
        return advice
    elsewhere = next((".".join((*other, name)) for other, names in tables.items() if name in names), None)
    return f"; did you mean {elsewhere}?" if elsewhere else ""


def _tables(model: type[BaseModel], path: tuple[str, ...] = ()) -> _Tables:
    fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    tables: _Tables = {path: list(fields)}
    for name, annotation in fields.items():
        for inner in _models(annotation):
            tables |= _tables(inner, (*path, name))
    return tables


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yields the models in an annotation, such as `Tls | None` or `tuple[Token, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _size(value: object) -> object:
    try:
        return parse_size(value) if isinstance(value, str) else value
    except UnitError as error:
        raise PydanticCustomError("headrace", "{message}", {"message": str(error)}) from None


MAX_DURATION_S = 100 * 365 * 86_400
"""The longest duration in a file, in seconds: clocks, sockets and threads take no much longer one."""


def _duration(value: object) -> object:
    try:
        seconds = parse_duration(value).total_seconds() if isinstance(value, str) else value
    except UnitError as error:
        raise PydanticCustomError("headrace", "{message}", {"message": str(error)}) from None
    if isinstance(seconds, int | float) and MAX_DURATION_S < seconds < math.inf:
        raise PydanticCustomError("headrace", "{message}", {"message": f"{value} is too long; a duration has at most 100 years"})
    return seconds


Size = Annotated[int, BeforeValidator(_size), Field(json_schema_extra={"format": "size"})]
"""A size in bytes, as a number or as text such as `64mb`."""


Duration = Annotated[float, BeforeValidator(_duration), Field(allow_inf_nan=False, json_schema_extra={"format": "duration"})]
"""A duration in seconds, as a number or as text such as `30s`."""


def takes_size(field: FieldInfo) -> bool:
    """Returns whether a field has the type `Size`, `Size | None`, or a list of sizes."""
    return _is_validated_by(field, _size)


def takes_duration(field: FieldInfo) -> bool:
    """Returns whether a field has the type `Duration`, `Duration | None`, or a list of durations."""
    return _is_validated_by(field, _duration)


def _is_validated_by(field: FieldInfo, function: Callable[[object], object]) -> bool:
    def marks(metadata: Any) -> bool:
        return any(isinstance(mark, BeforeValidator) and mark.func is function for mark in metadata)

    return marks(field.metadata) or any(marks(get_args(inner)) for inner in get_args(field.annotation))
