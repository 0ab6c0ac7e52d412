"""Arrow arrays of an application's values, without a loss that pyarrow would not report."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from math import inf
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
    check(values, kind)
    return array


def is_in_calendar(column: "pa.Array[Any]") -> bool:
    """Whether a column has no times, or all are within the years 1 to 9999 UTC: Arrow holds others, but no Python object does."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_timestamp(column.type):
        return True
    ends = pc.min_max(column.cast(pa.int64())).as_py()
    return ends["min"] is None or (ends["min"] >= _YEAR_1 and ends["max"] < _YEAR_10000)


def check(values: Iterable[Any], kind: "pa.DataType") -> None:
    """Checks for what pyarrow cuts off: fractions of numbers and of seconds, the time of day, a zone, and the size of a number.

    Raises:
        ValueError: A value has a part that the type does not hold.
        OverflowError: A time is outside the calendar in UTC.
    """
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        check(values, kind.value_type)
    elif types.is_struct(kind):
        _check_fields(values, kind)
    elif types.is_map(kind):
        pairs = [pair for value in values if value is not None for pair in (value.items() if isinstance(value, dict) else value)]
        check((key for key, _ in pairs), kind.key_type)
        check((item for _, item in pairs), kind.item_type)
    elif types.is_nested(kind):
        check((item for value in values if value is not None for item in value), kind.value_type)
    elif (cuts := _cuts(kind)) is not None:
        whole, is_cut = cuts
        found = list(values)
        for one in set(map(type, found)) - {type(None), whole}:
            if (value := next((each for each in found if type(each) is one and is_cut(each)), None)) is not None:
                raise ValueError(
                    f"{value!r} is a {one.__name__}, and the column is of type {kind}, which does not hold all of it"
                )


def _cuts(kind: "pa.DataType") -> tuple[type, Callable[[Any], bool]] | None:
    """A class whose values pyarrow never cuts to make them fit a type, and whether it cuts another one; None if it cuts none."""
    import pyarrow as pa

    types = pa.types
    if types.is_integer(kind):
        return int, lambda value: not isinstance(value, Integral)
    if types.is_date(kind):
        return date, lambda value: isinstance(value, (datetime, float))
    if types.is_float16(kind) or types.is_float32(kind):
        largest = _MAX_FINITE[kind.bit_width]
        return int, lambda value: largest < abs(value) < inf
    if types.is_timestamp(kind) or types.is_time(kind) or types.is_duration(kind):
        step = _MICROSECONDS.get(kind.unit, 1)
        return int, lambda value: isinstance(value, float) or _microseconds(value) % step != 0 or _is_zone_lost(value)
    return None


_MAX_FINITE = {16: 65504.0, 32: (2 - 2**-23) * 2.0**127}
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000}


def _microseconds(value: Any) -> int:
    return value.microseconds if isinstance(value, timedelta) else getattr(value, "microsecond", 0)


def _is_zone_lost(value: Any) -> bool:
    """Whether it is a time of day with a zone, which no column holds.

    Raises:
        OverflowError: It is a time outside the calendar in UTC.
    """
    if isinstance(value, datetime) and value.tzinfo is not None:
        value.astimezone(UTC)
    return isinstance(value, time) and value.tzinfo is not None


def _check_fields(values: Iterable[Any], kind: "pa.DataType") -> None:
    there = [value for value in values if value is not None]
    for number in range(kind.num_fields):
        field = kind.field(number)
        check((_field(value, field.name, number) for value in there), field.type)


def _field(value: Any, name: str, number: int) -> Any:
    return value.get(name) if isinstance(value, dict) else value[number]
