"""What the parameters of a connector are, for people: read from the types and fields of their class."""

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

_SCALARS = {str: "text", int: "whole number", float: "number", bool: "true or false", Path: "path", SecretStr: "text"}
_METAVARS = {str: "TEXT", int: "N", float: "N", Path: "PATH", SecretStr: "TEXT"}
_BOUNDS = {Ge: "at least", Gt: "more than", Le: "at most", Lt: "less than"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a connector.

    Attributes:
        name: What it is called in configuration files; on the command line with `-` for `_`.
        type: What it takes, for people.
        metavar: What stands for a value in the help of a command.
        choices: The texts that it takes, where it takes only some.
        flag: Whether it is either true or false.
        several: Whether it takes a list.
        pairs: Whether it takes texts by name.
        required: Whether it must be given.
        secret: Whether it is never shown.
        default: What it is where it is not given, as configuration files have it; None for nothing, and for a secret.
        description: What it means.
        examples: Values that stand in examples.
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
        """What it is called on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def default_text(self) -> str:
        """The default, for people; empty where there is none."""
        if self.default is None or self.default in ([], {}):
            return ""
        if isinstance(self.default, bool):
            return str(self.default).lower()
        return ", ".join(map(str, self.default)) if isinstance(self.default, list) else str(self.default)


def declared(parameters: type[BaseModel]) -> tuple[Parameter, ...]:
    """The parameters that a class declares, in its order.

    Raises:
        TypeError: One of them has a type that no command line and no configuration file can give.
    """
    last: Sequence[str] = getattr(parameters, "last", ())
    fields = sorted(parameters.model_fields.items(), key=lambda named: named[0] in last)
    return tuple(_parameter(parameters, name, field) for name, field in fields)


def takes_several(annotation: Any) -> bool:
    """True for the type of a parameter that takes a list."""
    return get_origin(_without_none(annotation)) in (list, tuple, set, frozenset, Sequence)


def _parameter(owner: type[BaseModel], name: str, field: FieldInfo) -> Parameter:
    inner = _without_none(field.annotation)
    several = takes_several(inner)
    pairs = get_origin(inner) in (dict, Mapping)
    one = _without_none(get_args(inner)[1 if pairs else 0]) if several or pairs else inner
    choices = _choices(one)
    if not choices and not set(_scalars(one)) <= set(_SCALARS):
        raise TypeError(f"{owner.__name__}.{name} is of type {field.annotation}, which no command line can give")
    default = field.get_default(call_default_factory=True, validated_data={}) if not field.is_required() else None
    secret = one is SecretStr
    return Parameter(
        name=field.alias or name,
        type=_described(one, choices, several, pairs, field),
        metavar="NAME=VALUE" if pairs else _METAVARS.get(one, "VALUE"),
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
    """The type of a value where there is one, without what only constrains it."""
    if get_origin(annotation) is Annotated:
        return _without_none(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [inner for inner in get_args(annotation) if inner is not types.NoneType]
        if len(rest) == 1:
            return _without_none(rest[0])
    return annotation


def _scalars(annotation: Any) -> tuple[Any, ...]:
    """The types of a union, or the one type."""
    is_union = get_origin(annotation) in (Union, types.UnionType)
    return tuple(map(_without_none, get_args(annotation))) if is_union else (annotation,)


def _choices(annotation: Any) -> tuple[str, ...]:
    """The texts that a `Literal` or an `Enum` takes."""
    if get_origin(annotation) is Literal:
        return tuple(map(str, get_args(annotation)))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return tuple(str(member.value) for member in annotation)
    return ()


def _described(one: Any, choices: tuple[str, ...], several: bool, pairs: bool, field: FieldInfo) -> str:
    """The type in words."""
    if choices:
        what = f"{', '.join(choices[:-1])} or {choices[-1]}" if len(choices) > 1 else choices[0]
        return f"list of: {what}" if several else what
    what = " or ".join(_SCALARS[kind] for kind in _scalars(one))
    what = f"list of {what}s" if several else f"{what} by name" if pairs else what
    return ", ".join([what, *_bounds(field.metadata)])


def _bounds(metadata: Iterable[Any]) -> list[str]:
    """What constrains a number, in words."""
    return [
        f"{word} {getattr(bound, kind.__name__.lower())}"
        for bound in metadata
        for kind, word in _BOUNDS.items()
        if isinstance(bound, kind)
    ]


def _plain(value: Any) -> Any:
    """A value as configuration files have it."""
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
