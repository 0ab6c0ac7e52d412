"""States and keys as plain values, for people and other programs."""

import dataclasses
import math
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np

MAX_DEPTH = 100
"""The depth up to which a value is shown: JSON is written and read recursively."""
MAX_BITS = 10_000
"""The size of an integer that is shown as one: Python writes no longer ones in decimal digits."""
_DEEPER = "..."


def plain(value: Any) -> Any:
    """Converts a state or a key to JSON types, whatever it contains; `json.dumps` accepts the result, and other programs read it.

    An instance becomes its fields, bytes become text with escapes for invalid UTF-8, times text of ISO 8601, enum members their
    values, and numbers that JSON does not have text. A dict becomes a list of pairs if two of its keys would have one name. A
    part that is deeper than `MAX_DEPTH`, or contains itself, is `...`.
    """
    return _plain(value, ())


def _plain(value: Any, above: tuple[int, ...]) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, Enum):
        return _plain(value.value, above)
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (Decimal, Fraction, UUID)):
        return str(value)
    if isinstance(value, type):
        return value.__qualname__
    if id(value) in above or len(above) == MAX_DEPTH:
        return _DEEPER
    return _nested(value, (*above, id(value)))


def _nested(value: Any, above: tuple[int, ...]) -> Any:
    if isinstance(value, dict):
        return _dict(value, above)
    if isinstance(value, (np.generic, np.ndarray)):
        return _plain(value.tolist(), above)
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return [_plain(one, above) for one in value]
    if dataclasses.is_dataclass(value):
        return _fields(value, (field.name for field in dataclasses.fields(value)), above)
    if (fields := getattr(value, "__struct_fields__", None)) is not None:
        return _fields(value, fields, above)
    return _plain(vars(value), above) if hasattr(value, "__dict__") else repr(value)


def _number(value: float) -> Any:
    if isinstance(value, int):
        return value if value.bit_length() <= MAX_BITS else hex(value)
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _dict(value: Mapping[Any, Any], above: tuple[int, ...]) -> Any:
    pairs = [(_plain(key, above), _plain(kept, above)) for key, kept in value.items()]
    named = {str(key): kept for key, kept in pairs}
    return named if len(named) == len(pairs) else [list(pair) for pair in pairs]


def _fields(value: Any, names: Iterable[str], above: tuple[int, ...]) -> dict[str, Any]:
    return {name: _plain(getattr(value, name), above) for name in names if hasattr(value, name)}
