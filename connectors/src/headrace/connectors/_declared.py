"""Descriptions of the parameters of a connector, from the types and fields of their class."""

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from headrace.configuration import takes_duration, takes_size
from headrace.contract.units import format_duration, format_size

_SCALARS = {str: "text", int: "whole number", float: "number", bool: "true or false", Path: "path", SecretStr: "text"}
_METAVARS = {str: "TEXT", int: "N", float: "N", Path: "PATH", SecretStr: "TEXT"}
_SIZE = "size"
_DURATION = "duration"
_BOUNDS = {Ge: "at least", Gt: "more than", Le: "at most", Lt: "less than"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a connector.

    Attributes:
        name: Its name in configuration files; on the command line, `-` replaces `_`.
        type: The accepted values, in words.
        metavar: The placeholder for a value in the help of a command.
        choices: The accepted texts; empty if any text is accepted.
        flag: Whether it is a Boolean.
        several: Whether it accepts a list.
        pairs: Whether it accepts a mapping from names to texts.
        required: Whether it is required.
        secret: Whether it is never shown.
        default: The default, as in configuration files; None if there is none, and for a secret.
        description: Its meaning.
        examples: Values for examples.
    """

    name: str
    type: str
    metavar: str
    choices: tuple[str, ...]
    flag: bool
    several: bool
    pairs: bool
    required: bool
    secret: bool
    default: str | int | float | bool | list[Any] | dict[str, Any] | None
    description: str
    examples: tuple[Any, ...]

    @property
    def option(self) -> str:
        """Its option on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def default_text(self) -> str:
        """The default as text; empty if there is none."""
        if self.default is None or self.default in ([], {}):
            return ""
        if self.type.startswith(_SIZE) and isinstance(self.default, int):
            return format_size(self.default)
        if self.type.startswith(_DURATION) and isinstance(self.default, int | float):
            return format_duration(timedelta(seconds=self.default))
        if isinstance(self.default, bool):
            return str(self.default).lower()
        return ", ".join(map(str, self.default)) if isinstance(self.default, list) else str(self.default)


def declared(parameters: type[BaseModel]) -> tuple[Parameter, ...]:
    """Returns the parameters that a class declares, in order.

    Raises:
        TypeError: A parameter has a type that a command line or configuration file cannot express.
    """
    last: Sequence[str] = getattr(parameters, "last", ())
    fields = sorted(parameters.model_fields.items(), key=lambda named: named[0] in last)
    return tuple(_parameter(parameters, name, field) for name, field in fields)


def takes_several(annotation: Any) -> bool:
    """Returns whether a parameter of this type accepts a list."""
    return get_origin(_without_none(annotation)) in (list, tuple, set, frozenset, Sequence)


def _parameter(owner: type[BaseModel], name: str, field: FieldInfo) -> Parameter:
    inner = _without_none(field.annotation)
    several = takes_several(inner)
    pairs = get_origin(inner) in (dict, Mapping)
    one = _without_none(get_args(inner)[1 if pairs else 0]) if several or pairs else inner
    choices = _choices(one)
    if not choices and not set(_scalars(one)) <= set(_SCALARS):
        raise TypeError(f"{owner.__name__}.{name} is of type {field.annotation}, which a command line cannot express")
    default = field.get_default(call_default_factory=True, validated_data={}) if not field.is_required() else None
    secret = one is SecretStr
    return Parameter(
        name=field.alias or name,
        type=_described(one, choices, several, pairs, field),
        metavar=_metavar(one, pairs, field),
        choices=choices,
        flag=one is bool and not several,
        several=several,
        pairs=pairs,
        required=field.is_required(),
        secret=secret,
        default=None if secret else _plain(default),
        description=field.description or "",
        examples=tuple(map(_plain, field.examples or ())),
    )


def _without_none(annotation: Any) -> Any:
    """Returns the type of the value, without None and without constraints."""
    if get_origin(annotation) is Annotated:
        return _without_none(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [inner for inner in get_args(annotation) if inner is not types.NoneType]
        if len(rest) == 1:
            return _without_none(rest[0])
    return annotation


def _scalars(annotation: Any) -> tuple[Any, ...]:
    """Returns the types of a union, or the single type."""
    is_union = get_origin(annotation) in (Union, types.UnionType)
    return tuple(map(_without_none, get_args(annotation))) if is_union else (annotation,)


def _choices(annotation: Any) -> tuple[str, ...]:
    """Returns the texts that a `Literal` or an `Enum` accepts."""
    if get_origin(annotation) is Literal:
        return tuple(map(str, get_args(annotation)))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return tuple(str(member.value) for member in annotation)
    return ()


def _described(one: Any, choices: tuple[str, ...], several: bool, pairs: bool, field: FieldInfo) -> str:
    """Returns the type in words."""
    if choices:
        what = f"{', '.join(choices[:-1])} or {choices[-1]}" if len(choices) > 1 else choices[0]
        return f"list of: {what}" if several else what
    unit = _unit(field)
    what = unit or " or ".join(_SCALARS[kind] for kind in _scalars(one))
    what = f"list of {what}s" if several else f"{what} by name" if pairs else what
    inner = [getattr(mark, "metadata", ()) for mark in _marks(field.annotation)] if several else []
    return ", ".join([what, *_bounds(chain(field.metadata, *inner), unit)])


def _metavar(one: Any, pairs: bool, field: FieldInfo) -> str:
    """Returns the placeholder for a value."""
    return "NAME=VALUE" if pairs else _unit(field).upper() or _METAVARS.get(one, "VALUE")


def _unit(field: FieldInfo) -> str:
    """Returns `size` or `duration` if a field takes numbers with such units; otherwise an empty text."""
    return _SIZE if takes_size(field) else _DURATION if takes_duration(field) else ""


def _marks(annotation: Any) -> Iterable[Any]:
    """Returns the constraints of the elements of a list."""
    return get_args(get_args(_without_none(annotation))[0])[1:]


def _bounds(metadata: Iterable[Any], unit: str) -> list[str]:
    """Returns the constraints of a number, in words."""

    def text(bound: Any) -> str:
        return format_duration(timedelta(seconds=bound)) if unit == _DURATION and bound >= 0 else str(bound)

    return [
        f"{word} {text(getattr(bound, kind.__name__.lower()))}"
        for bound in metadata
        for kind, word in _BOUNDS.items()
        if isinstance(bound, kind)
    ]


def _plain(value: Any) -> Any:
    """Returns a value in the form of configuration files."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, SecretStr):
        return None
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    return value
