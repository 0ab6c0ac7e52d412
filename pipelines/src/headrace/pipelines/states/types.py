"""Whether a value is of a type that an annotation describes."""

import collections.abc
import types
import typing
from collections import deque
from collections.abc import Mapping
from numbers import Integral, Number, Real
from typing import Any

_NUMBERS: dict[Any, Any] = {int: Integral, float: Real, complex: Number}
"""The numbers that fit a type: an int is a float, and numpy's numbers are numbers."""
_ITERABLE_AGAIN = (list, tuple, set, frozenset, deque)


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type. An undecidable value fits.

    Args:
        value: The value.
        hint: The type, as in an annotation; `None` and its type mean nothing about other values.
    """
    if isinstance(hint, type) and not typing.get_args(hint):
        return _is_instance(value, hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union or origin is types.UnionType:
        return any(value is None if each is type(None) else fits(value, each) for each in arguments)
    if origin is typing.Literal:
        return value in arguments
    if isinstance(hint, typing.NewType):
        return fits(value, hint.__supertype__)
    if not isinstance(origin, type):
        return True
    return _is_instance(value, origin) and _contents_fit(value, origin, arguments)


def _is_instance(value: Any, kind: type) -> bool:
    if kind is type(None) or kind is object:
        return True
    try:
        return isinstance(value, _NUMBERS.get(kind, kind))
    except TypeError:  # a protocol that exists only for type checkers
        return True


def _contents_fit(value: Any, origin: type, arguments: tuple[Any, ...]) -> bool:
    if isinstance(value, Mapping) and len(arguments) == 2:
        keys, values = arguments
        return all(fits(key, keys) and fits(each, values) for key, each in value.items())
    if origin is tuple and not (len(arguments) == 2 and arguments[1] is ...):
        return len(value) == len(arguments) and all(map(fits, value, arguments))
    if isinstance(value, _ITERABLE_AGAIN) and arguments and issubclass(origin, collections.abc.Iterable):
        return all(fits(each, arguments[0]) for each in value)
    return True
