"""Arrow arrays of an application's values, without a loss that pyarrow would not report."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from numbers import Integral
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def array_of(values: Sequence[Any], kind: "pa.DataType") -> "pa.Array":
    """The values as an array.

    Raises:
        ValueError: A value has a part that the type does not hold, such as the fraction of a number.
        pa.ArrowException: Another value does not fit.
    """
    import pyarrow as pa

    array = pa.array(values, kind)
    _check(values, kind)
    return array


def _check(values: Iterable[Any], kind: "pa.DataType") -> None:
    """Checks for what pyarrow cuts off: fractions of numbers, and the time of day."""
    import pyarrow as pa

    types = pa.types
    if types.is_integer(kind) or types.is_date32(kind):
        found = list(values)
        for one in set(map(type, found)) - {int, type(None)}:
            if types.is_date32(kind) if issubclass(one, datetime) else types.is_integer(kind) and not issubclass(one, Integral):
                value = next(each for each in found if type(each) is one)
                raise ValueError(f"{value!r} is a {one.__name__}, and the column is of type {kind}")
    elif types.is_list(kind):
        _check((item for value in values if value is not None for item in value), kind.value_type)
    elif types.is_struct(kind):
        _check_fields(values, kind)
    elif types.is_map(kind):
        pairs = [pair for value in values if value is not None for pair in (value.items() if isinstance(value, dict) else value)]
        _check((item for _, item in pairs), kind.item_type)


def _check_fields(values: Iterable[Any], kind: "pa.DataType") -> None:
    there = [value for value in values if value is not None]
    for number in range(kind.num_fields):
        field = kind.field(number)
        _check((_field(value, field.name, number) for value in there), field.type)


def _field(value: Any, name: str, number: int) -> Any:
    return value.get(name) if isinstance(value, dict) else value[number]
