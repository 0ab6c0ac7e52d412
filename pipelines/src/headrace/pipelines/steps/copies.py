"""Copies of values, so that a later change of one does not reach another one that has been passed on.

Steps pass values on by reference. A copy is made where two places would share what can change: a state and the results of its
function, the branches of a flow, the windows that contain a value, and the results of one call.
"""

import pickle
from collections.abc import Sequence
from copy import deepcopy
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from types import BuiltinFunctionType, EllipsisType, FunctionType, NotImplementedType
from typing import Any
from uuid import UUID

from headrace.pipelines.elements.headers import Headers
from headrace.pipelines.elements.message import Message
from headrace.pipelines.elements.rows import Column, MessageRows, TableRows
from headrace.pipelines.states.fields import fields_of_one, instance, lies_in_dict, new_of
from headrace.pipelines.states.kinds import is_by_field

FIXED: frozenset[Any] = frozenset(
    {
        *(bool, int, float, complex, str, bytes, type(None), range, Decimal, Fraction, UUID, EllipsisType, NotImplementedType),
        *(date, datetime, time, timedelta, timezone, FunctionType, BuiltinFunctionType, type, Headers, Message),
    }
)
"""Classes whose instances cannot change, and contain nothing that can."""
_CONTAINERS = frozenset({list, dict, tuple})


def copied(value: Any) -> Any:
    """A copy that shares nothing with the value that can change; the value itself if nothing in it can.

    Raises:
        TypeError: It cannot be copied.
    """
    kind = type(value)
    if kind in FIXED:
        return value
    if kind in _CONTAINERS:
        if _is_flat(value):
            return value if kind is tuple else value.copy()
        try:
            # The fastest way to copy nested lists and dicts, if there is nothing in them that pickle refuses.
            return pickle.loads(pickle.dumps(value, 5))
        except Exception:
            pass
    try:
        return _copy(value, {})
    except Exception as error:
        raise TypeError(
            f"a value of type {kind.__name__} cannot be copied ({type(error).__name__}: {error}): a step passes on a copy "
            "of what its state or another branch may share, so return plain data"
        ) from error


def copied_together(values: Sequence[Any]) -> Sequence[Any] | None:
    """Copies of many values at once; None if each must be copied on its own."""
    if isinstance(values, TableRows):
        return TableRows(values.batch)
    if isinstance(values, (Column, MessageRows)) or FIXED.issuperset(map(type, values)):
        return values
    if not _CONTAINERS.issuperset(map(type, values)):
        return None
    try:
        found: list[Any] = pickle.loads(pickle.dumps(list(values), 5))
    except Exception:
        return None
    return found


def share_nothing(values: list[Any]) -> list[Any]:
    """The values; copies if two of them could share what can change.

    Raises:
        TypeError: One cannot be copied.
    """
    if len(values) < 2 or FIXED.issuperset(map(type, values)):
        return values
    if len(set(map(id, values))) == len(values) and all(map(_is_flat, values)):
        return values
    return [copied(value) for value in values]


def _is_flat(value: Any) -> bool:
    """Whether a value is a list, a dict or a tuple of what cannot change."""
    kind = type(value)
    if kind is dict:
        return FIXED.issuperset(map(type, value.values())) and FIXED.issuperset(map(type, value))
    return (kind is list or kind is tuple) and FIXED.issuperset(map(type, value))


def _copy(value: Any, memo: dict[int, Any]) -> Any:
    kind: Any = type(value)
    if kind in FIXED:
        return value
    if id(value) in memo:
        return memo[id(value)]
    if kind is dict:
        return _copy_of_dict(value, memo)
    if kind is list:
        return _copy_of_list(value, memo)
    if kind is tuple:
        return _copy_of_tuple(value, memo)
    if kind is set:
        memo[id(value)] = found = {_copy(each, memo) for each in value}
        return found
    if isinstance(value, Enum) or (kind is frozenset and FIXED.issuperset(map(type, value))):
        return value
    if is_by_field(kind) and not hasattr(kind, "__deepcopy__"):
        return _copy_of_tuple(value, memo) if issubclass(kind, tuple) else _copy_of_instance(kind, value, memo)
    return deepcopy(value, memo)


def _copy_of_dict(value: dict[Any, Any], memo: dict[int, Any]) -> Any:
    memo[id(value)] = found = value.copy()
    if not FIXED.issuperset(map(type, value)):
        found.clear()
        found.update({_copy(key, memo): _copy(each, memo) for key, each in value.items()})
    elif not FIXED.issuperset(map(type, value.values())):
        for key, each in value.items():
            if type(each) not in FIXED:
                found[key] = _copy(each, memo)
    return found


def _copy_of_list(value: list[Any], memo: dict[int, Any]) -> Any:
    memo[id(value)] = found = value.copy()
    if not FIXED.issuperset(map(type, value)):
        found[:] = [_copy(each, memo) for each in value]
    return found


def _copy_of_tuple(value: Any, memo: dict[int, Any]) -> Any:
    if FIXED.issuperset(map(type, value)):
        return value
    parts = [_copy(each, memo) for each in value]
    if id(value) in memo:  # It contains itself, by way of a list.
        return memo[id(value)]
    same = all(part is each for part, each in zip(parts, value, strict=True))
    found = value if same else tuple.__new__(type(value), parts)
    memo[id(value)] = found
    return found


def _copy_of_instance(kind: type, value: Any, memo: dict[int, Any]) -> Any:
    if _is_frozen(kind) and FIXED.issuperset(map(type, fields_of_one(value).values())):
        return value
    made = new_of(kind)(kind)
    if made is value:  # There is only one instance of such a class.
        return value
    memo[id(value)] = made
    if lies_in_dict(kind):
        fields = value.__dict__
        made.__dict__.update(fields)
        for name, each in fields.items():
            if type(each) not in FIXED:
                made.__dict__[name] = _copy(each, memo)
        return made
    return instance(kind, {name: _copy(each, memo) for name, each in fields_of_one(value).items()}, {}, made)


@lru_cache(maxsize=1024)
def _is_frozen(kind: type) -> bool:
    return bool(getattr(getattr(kind, "__dataclass_params__", None), "frozen", False))
