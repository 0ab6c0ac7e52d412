"""Upgrades of stored fields to the present version of their class."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Set
from functools import lru_cache, partial
from typing import Any

from headrace.pipelines._errors import StateError

Defaults = Mapping[str, Callable[[], Any]]
"""Functions that create the default of a missing field, by field."""
Upgrade = Callable[[int, dict[str, Any]], dict[str, Any]]
"""Converts the fields of a version to the present version."""


def version_of(kind: type) -> int:
    """The version of a class, its attribute `version`; 0 if it has none."""
    version = getattr(kind, "version", 0)
    return version if isinstance(version, int) else 0


@lru_cache(maxsize=256)
def defaults_of(kind: type) -> Defaults:
    """A function that creates the default of each field that has one."""
    if issubclass(kind, tuple):
        return {name: partial(_same, value) for name, value in getattr(kind, "_field_defaults", {}).items()}
    if not dataclasses.is_dataclass(kind):
        return {}
    made: dict[str, Callable[[], Any]] = {}
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            made[field.name] = partial(_same, field.default)
        elif field.default_factory is not dataclasses.MISSING:
            made[field.name] = field.default_factory
    return made


def version_inside(kind: type) -> int:
    """The version of a class whose instances are inside states, where a field may be named `version`."""
    return 0 if "version" in (fields_declared(kind) or ()) else version_of(kind)


def upgrade_of(where: str, kind: type, version: int) -> Upgrade | None:
    """The class's `upgrade` for a stored version; None for the present version.

    Raises:
        StateError: The versions differ, and the class has no `upgrade`.
    """
    if version == version_of(kind):
        return None
    upgrade: Upgrade | None = getattr(kind, "upgrade", None)
    if upgrade is None:
        raise StateError(
            f"{where}: the checkpoint has states of version {version} of {kind.__qualname__}, which is at "
            f"version {version_of(kind)} now; give it a class method upgrade(version, fields) that returns the new fields"
        )
    return upgrade


def check_fields(where: str, kind: type, fields: Iterable[str]) -> None:
    """Checks stored fields against the fields that the class declares, if it does.

    Raises:
        StateError: The class no longer has a field, or has a new one without a default.
    """
    known = fields_declared(kind)
    if known is None:
        return
    there = set(fields)
    lost, missing = there - known, known - there - defaults_of(kind).keys()
    if lost or missing:
        raise StateError(
            f"{where}: stored states of {kind.__qualname__} "
            + " and ".join(
                [f"have {_names(lost)}, which it no longer has"] * bool(lost)
                + [f"lack {_names(missing)}, which has no default"] * bool(missing)
            )
            + "; raise its version and give it a class method upgrade(version, fields) that returns the new fields"
        )


@lru_cache(maxsize=256)
def fields_declared(kind: type) -> frozenset[str] | None:
    """The names of a class's fields; None if it does not declare them."""
    if issubclass(kind, tuple):
        return frozenset(getattr(kind, "_fields", ()))
    return frozenset(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


def _same(value: Any) -> Any:
    return value


def _names(names: Set[str]) -> str:
    return ", ".join(sorted(names))
