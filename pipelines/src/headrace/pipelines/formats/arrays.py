"""Arrow arrays of an application's values, without a loss that pyarrow would not report."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from numbers import Integral
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_YEAR_1, _YEAR_10000 = -62_135_596_800_000_000, 253_402_300_800_000_000
"""In microseconds since 1970 UTC."""


def array_of(values: Sequence[Any], kind: "pa.DataType") -> "pa.Array":
    """The values as an array.

    Raises:
        ValueError: A value has a part that the type does not hold, such as the fraction of a number.
        OverflowError: A time is outside the calendar in UTC.
        pa.ArrowException: Another value does not fit.
    """
    import pyarrow as pa

    array = pa.array(values, kind)
    _check(values, kind)
    return array


def is_in_calendar(column: "pa.Array[Any]") -> bool:
    """Whether a column has no times, or all are within the years 1 to 9999 UTC: Arrow holds others, but no Python object does."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_timestamp(column.type):
        return True
    ends = pc.min_max(column.cast(pa.int64())).as_py()
    return ends["min"] is None or (ends["min"] >= _YEAR_1 and ends["max"] < _YEAR_10000)


def _check(values: Iterable[Any], kind: "pa.DataType") -> None:
    """Checks for what pyarrow cuts off: fractions of numbers, and the time of day. Checks times as `is_in_calendar`."""
    import pyarrow as pa

    types = pa.types
    if types.is_integer(kind) or types.is_date32(kind):
        found = list(values)
        for one in set(map(type, found)) - {int, type(None)}:
            if types.is_date32(kind) if issubclass(one, datetime) else types.is_integer(kind) and not issubclass(one, Integral):
                value = next(each for each in found if type(each) is one)
                raise ValueError(f"{value!r} is a {one.__name__}, and the column is of type {kind}")
    elif types.is_timestamp(kind):
        for value in values:
            if isinstance(value, datetime) and value.tzinfo is not None:
                value.astimezone(UTC)
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
