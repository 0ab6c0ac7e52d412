"""The parameters of a manifest, as a class like the parameters of bundled connectors."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, SecretStr, TypeAdapter, ValidationError, create_model

from headrace.configuration import Duration, Size, validated
from headrace.connectors._connector import RESERVED
from headrace.connectors._parameters import Parameters
from headrace.connectors.manifests._model import Manifest, ParameterTable
from headrace.contract.settings import TLS, TLS_CA, TLS_CERT, TLS_KEY, TOKEN

_TYPES: dict[str, Any] = {
    "text": str,
    "integer": int,
    "number": Annotated[float, Field(allow_inf_nan=False)],
    "boolean": bool,
    "size": Size,
    "duration": Duration,
    "path": Path,
}
_ORDERED = ("integer", "number", "size", "duration")
_NAME = re.compile(r"(?=.{1,63}$)[a-z](?:[a-z0-9_]*[a-z0-9])?")
_OF_THE_GATEWAY = tuple(f"gateway_{setting.name}" for setting in (TOKEN, TLS, TLS_CA, TLS_CERT, TLS_KEY))
"""What options for the gateway are named if the connector has such an option itself."""

Key = tuple[str | int, ...]


class _Parameters(Parameters):
    """The base of all of them: no prefix of a name is reserved, as it is in classes that are written by hand."""

    model_config = ConfigDict(protected_namespaces=())


def parameters_class(manifest: Manifest) -> type[Parameters]:
    """Returns the class of the parameters of a consistent manifest."""
    fields: dict[str, Any] = {}
    for name, table in manifest.parameters.items():
        # A field must not hide an attribute of the class. No name of a parameter ends with _.
        is_taken = hasattr(Parameters, name)
        fields[f"{name}_" if is_taken else name] = _field(table, name if is_taken else None)
    title = "".join(part.capitalize() for part in re.split(r"[._-]+", manifest.name))
    about = f"{manifest.summary[0].upper()}{manifest.summary[1:].removesuffix('.')}."
    return create_model(f"{title}Parameters", __base__=_Parameters, __doc__=about, **fields)


def faults(manifest: Manifest) -> Iterator[tuple[Key, str]]:
    """Yields the keys of parameters that are invalid, each with what to write instead."""
    names = set(manifest.parameters)
    for name, table in manifest.parameters.items():
        key: Key = ("parameters", name)
        if not _NAME.fullmatch(name):
            yield (
                key,
                "a parameter's name begins with a letter, has at most 63 small letters, digits and _, and does not end with _",
            )
        elif name in RESERVED or name in _OF_THE_GATEWAY:
            yield key, "the name is reserved; rename the parameter"
        elif name.startswith("no_") and name[3:] in names and manifest.parameters[name[3:]].type == "boolean":
            yield key, f"the option --no-{name[3:].replace('_', '-')} belongs to {name[3:]}; rename one of the parameters"
        else:
            found = list(_faults(table)) or list(_wrong_values(name, table))
            yield from (((*key, *at), told) for at, told in found)


def _faults(table: ParameterTable) -> Iterator[tuple[Key, str]]:
    """Yields the keys of a parameter that do not go together."""
    if table.required and table.default is not None:
        yield ("default",), "a required parameter has no default; remove one of them"
    if table.secret:
        if table.type != "text":
            yield ("secret",), "only a parameter of type text can be secret"
        given = {"default": table.default is not None, "several": table.several, "choices": table.choices}
        for name in [name for name, is_given in (given | {"examples": table.examples}).items() if is_given]:
            yield (name,), "not possible for a secret; remove it"
    if table.choices and table.type != "text":
        yield ("choices",), "only a parameter of type text can have choices"
    if table.several and table.type == "boolean":
        yield ("several",), "a boolean cannot be a list"
    for name in ("minimum", "maximum"):
        bound = getattr(table, name)
        if bound is None:
            continue
        if table.type not in _ORDERED:
            yield (name,), f"is for parameters of type {', '.join(_ORDERED[:-1])} or {_ORDERED[-1]}"
        elif _bound(table, name) is None:
            yield (name,), f"is not of type {table.type}"
    least, most = _bound(table, "minimum"), _bound(table, "maximum")
    if least is not None and most is not None and least > most:
        yield ("maximum",), "is less than minimum"


def _wrong_values(name: str, table: ParameterTable) -> Iterator[tuple[Key, str]]:
    """Yields the default and the examples that the parameter itself would not accept."""
    model = create_model("One", __base__=_Parameters, **{f"{name}_": _field(table, name)})
    values: list[tuple[Key, Any]] = [(("examples", index), example) for index, example in enumerate(table.examples)]
    if table.default is not None:
        values.append((("default",), table.default))
    for key, value in values:
        result = validated(model, {name: value})
        if isinstance(result, list):
            yield key, result[0][1]


def _field(table: ParameterTable, alias: str | None) -> Any:
    """Returns the type of a field, and the field."""
    bounds = {"ge": _bound(table, "minimum"), "le": _bound(table, "maximum")}
    kind: Any = _TYPES[table.type]
    if table.secret:
        kind = SecretStr
    elif table.choices:
        kind = Literal[tuple(table.choices)]
    if table.several:
        kind = list[Annotated[kind, Field(**bounds)]]
        bounds = {}
    about: dict[str, Any] = {"description": table.description, "examples": table.examples or None, "alias": alias, **bounds}
    if table.required:
        return kind, Field(**about)
    if table.default is not None:
        return kind, Field(default=_default(kind, table), **about)
    return (kind, Field(default=[], **about)) if table.several else (kind | None, Field(default=None, **about))


def _default(kind: Any, table: ParameterTable) -> Any:
    """Returns the default in the parameter's type; as it is given if it is invalid."""
    given = [table.default] if table.several and not isinstance(table.default, list) else table.default
    try:
        return TypeAdapter(kind).validate_python(given)
    except ValidationError:
        return given


def _bound(table: ParameterTable, name: str) -> Any:
    """Returns a bound in the unit of the parameter; None if there is none, or if it is invalid."""
    bound = getattr(table, name)
    if bound is None or table.type not in _ORDERED:
        return None
    try:
        return TypeAdapter(_TYPES[table.type]).validate_python(bound)
    except ValidationError:
        return None
