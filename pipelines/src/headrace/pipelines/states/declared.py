"""What a class declares about the fields of its instances: names, types, and how defaults are made.

Dataclasses and named tuples declare fields with annotations. Other classes declare the fields that their `__init__` sets, which a
new instance has. The declared types are stored with states, as texts, to recognise fields whose type has changed since.
"""

import dataclasses
import inspect
import sys
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from headrace.pipelines._errors import StateError
from headrace.pipelines.states.classes import Defaults, defaults_of, fields_declared
from headrace.pipelines.states.fields import fields_of_one
from headrace.pipelines.states.types import fits

Declared = tuple[tuple[str, str], ...]
"""The names of the declared fields, and texts that describe their types."""
Types = Mapping[str, Any]
"""The types of declared fields, as in annotations."""


@lru_cache(maxsize=1024)
def types_inside(kind: type) -> Types | None:
    """The declared fields of a class whose instances are inside states; None if its `__init__` needs arguments."""
    return types_of(kind, kind)


def types_of(kind: type, make: Callable[[], Any]) -> Types | None:
    """The declared fields of a class; None if they are unknown.

    Args:
        kind: The class.
        make: Creates an instance.
    """
    if fields_declared(kind) is not None:
        return _annotated(kind)
    sample = _sample(kind, make)
    return None if sample is None else {name: type(value) for name, value in fields_of_one(sample).items()}


@lru_cache(maxsize=1024)
def declared_inside(kind: type) -> Declared:
    """The form in which instances of a class inside states are stored."""
    return declared(types_inside(kind))


def declared(types: Types | None) -> Declared:
    """The form in which declared fields are stored."""
    return tuple((name, text_of(hint)) for name, hint in (types or {}).items())


def defaults_for(kind: type, make: Callable[[], Any], stored: Declared | None) -> Defaults:
    """Functions that create the defaults of the fields that are new since instances were stored.

    A field that a new instance had then, and a stored one does not have, was removed on purpose.
    """
    if fields_declared(kind) is not None:
        return defaults_of(kind)
    sample, known = _sample(kind, make), dict(stored or ())
    names = () if sample is None else fields_of_one(sample)
    return {name: lambda name=name: fields_of_one(make())[name] for name in names if name not in known}  # type: ignore[misc]


def check_kept(where: str, kind: type, types: Types | None, stored: Declared | None, fields: Iterable[str]) -> None:
    """Checks that a class without annotations still declares the stored fields that it declared when they were stored.

    Raises:
        StateError: It does not.
    """
    if fields_declared(kind) is not None or types is None:
        return
    lost = sorted(dict(stored or ()).keys() & set(fields) - types.keys())
    if lost:
        raise StateError(
            f"{where}: stored states of {kind.__qualname__} have {', '.join(lost)}, which a new one no longer has; "
            "raise its version and give it a class method upgrade(version, fields) that returns the new fields"
        )


def changed(types: Types | None, stored: Declared | None) -> dict[str, tuple[str, Any]]:
    """The fields whose type has changed since they were stored: how it was described, and what it is now."""
    now = types or {}
    return {name: (was, now[name]) for name, was in stored or () if name in now and text_of(now[name]) != was}


def check_types(where: str, kind: type, differing: Mapping[str, tuple[str, Any]], fields: Mapping[str, Iterable[Any]]) -> None:
    """Checks stored values of fields whose type has changed.

    Raises:
        StateError: A value does not fit the present type.
    """
    for name, (was, hint) in differing.items():
        for value in fields.get(name, ()):
            if not fits(value, hint):
                raise StateError(
                    f"{where}: the field {name} of {kind.__qualname__} was of type {was} when states were stored, and is of type "
                    f"{text_of(hint)} now, which a stored {type(value).__qualname__} does not fit; raise the class's version and "
                    "give it a class method upgrade(version, fields) that returns the new fields"
                )


def text_of(hint: Any) -> str:
    """A text that describes a type."""
    return hint.__qualname__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)


def _sample(kind: type, make: Callable[[], Any]) -> Any:
    """A new instance; None if `make` needs arguments or makes another class."""
    try:
        made = make()
    except Exception:
        return None
    return made if type(made) is kind else None


def _annotated(kind: type) -> Types:
    names: Iterable[str] = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else ()
    names = getattr(kind, "_fields", names)
    try:
        hints = typing.get_type_hints(kind)
    except Exception:  # An annotation may name what does not exist at run time.
        hints = {}
        for base in reversed(kind.__mro__):
            hints |= {name: _evaluated(base, hint) for name, hint in inspect.get_annotations(base).items()}
    return {name: hints.get(name, Any) for name in names}


def _evaluated(kind: type, hint: Any) -> Any:
    if not isinstance(hint, str):
        return hint
    try:
        return eval(hint, dict(vars(sys.modules[kind.__module__])))
    except Exception:
        return typing.ForwardRef(hint) if hint.isidentifier() else Any
