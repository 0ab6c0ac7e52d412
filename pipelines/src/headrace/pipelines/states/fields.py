"""Converts instances to their fields and back, many at a time."""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import Any

from headrace.pipelines.states.classes import Defaults


@dataclass(frozen=True, slots=True)
class Columns:
    """The fields of instances that all have the same fields.

    Attributes:
        names: The names of the fields.
        count: The number of instances.
        values: The values of each field.
    """

    names: tuple[str, ...]
    count: int
    values: tuple[list[Any], ...]


Fields = Columns | list[dict[str, Any]]
"""The fields of instances: by column, or by instance."""


def fields_of(kind: type, states: Sequence[Any], first: Sequence[str] = ()) -> Fields:
    """The fields of instances of a class: the fields in `first`, then the others sorted by name."""
    slots = slots_of(kind)
    try:
        if not _has_dict(kind):
            return Columns(slots, len(states), tuple(list(map(attrgetter(name), states)) for name in slots))
        dicts = [state.__dict__ for state in states]
        names = _ordered(dicts[0], first) if dicts else ()
        if not slots and set(map(len, dicts)) == {len(names)}:
            return Columns(names, len(states), tuple(list(map(itemgetter(name), dicts)) for name in names))
    except (AttributeError, KeyError):
        pass  # The instances have different fields.
    each = [_fields(state, slots) for state in states]
    return [{name: fields[name] for name in _ordered(fields, (*slots, *first))} for fields in each]


def fields_of_one(state: Any) -> dict[str, Any]:
    """The fields of one instance."""
    kind: type = type(state)
    slots = slots_of(kind)
    return _fields(state, slots) if slots else dict(getattr(state, "__dict__", ()))


def lies_in_dict(kind: type) -> bool:
    """Whether all fields of a class's instances are in their dict."""
    return _has_dict(kind) and not slots_of(kind)


def one_by_one(fields: Fields) -> list[dict[str, Any]]:
    """The fields of each instance."""
    if not isinstance(fields, Columns):
        return fields
    if not fields.values:
        return [{} for _ in range(fields.count)]
    return [dict(zip(fields.names, row, strict=True)) for row in zip(*fields.values, strict=True)]


def instances_of_columns(kind: type, fields: Columns, defaults: Defaults) -> list[Any]:
    """Instances of a class with these fields, and the defaults of missing ones."""
    columns = dict(zip(fields.names, fields.values, strict=True))
    for name, default in defaults.items():
        if name not in columns:
            columns[name] = [default() for _ in range(fields.count)]
    if any(_is_computed(kind, name) for name in columns):
        return [instance(kind, of_one, defaults) for of_one in one_by_one(fields)]
    instances: list[Any] = list(map(new_of(kind), repeat(kind, fields.count)))
    for name, column in columns.items():
        # Works for frozen classes too, and runs in C.
        deque(map(object.__setattr__, instances, repeat(name), column), maxlen=0)
    return instances


def instance(kind: type, fields: Mapping[str, Any], defaults: Defaults, target: Any = None) -> Any:
    """An instance of a class with these fields, and the defaults of missing ones.

    Args:
        kind: The class.
        fields: The values of the fields, by name.
        defaults: Functions that create defaults.
        target: An existing instance to fill; by default, a new one.
    """
    state: Any = new_of(kind)(kind) if target is None else target
    slots = slots_of(kind)
    has_dict = _has_dict(kind)
    for name, default in defaults.items():
        if name not in fields:
            object.__setattr__(state, name, default())
    for name, value in fields.items():
        if has_dict and name not in slots:
            state.__dict__[name] = value
        else:
            object.__setattr__(state, name, value)
    return state


@lru_cache(maxsize=1024)
def new_of(kind: type) -> Callable[[type], Any]:
    """Creates an instance without fields: as `pickle` does it, with the class's own `__new__`, unless that needs arguments."""
    new: Callable[..., Any] = kind.__new__
    if new is object.__new__:
        return new
    try:
        return new if type(new(kind)) is kind else object.__new__
    except Exception:
        return object.__new__


def _fields(state: Any, slots: Sequence[str]) -> dict[str, Any]:
    return {**{name: getattr(state, name) for name in slots if hasattr(state, name)}, **getattr(state, "__dict__", {})}


def _ordered(names: Collection[str], first: Sequence[str]) -> tuple[str, ...]:
    """The names in a fixed order."""
    there = tuple(names)
    if there == first:
        return there
    return (*[name for name in first if name in names], *sorted(set(there).difference(first)))


def _has_dict(kind: type) -> bool:
    return kind.__dictoffset__ != 0


def _is_computed(kind: type, name: str) -> bool:
    """Whether setting a field of a class calls a descriptor, such as a property."""
    found = getattr(kind, name, None)
    return name not in slots_of(kind) and hasattr(type(found), "__set__")


@lru_cache(maxsize=1024)
def slots_of(kind: type) -> tuple[str, ...]:
    """The names of the slots of a class and its bases, as attributes of an instance, the bases first."""
    names: list[str] = []
    for base in reversed(kind.__mro__):
        slots = base.__dict__.get("__slots__", ())
        names += [_mangled(base, name) for name in ([slots] if isinstance(slots, str) else slots)]
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _mangled(kind: type, name: str) -> str:
    """The mangled name of a private attribute."""
    private = name.startswith("__") and not name.endswith("__")
    return f"_{kind.__name__.lstrip('_')}{name}" if private else name
