"""Values of JSON that pyarrow would change, or die of: decimals, and times outside the calendar."""

import decimal
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Fit = Callable[[Any], Any]
"""Returns a value as its column holds it, or None for None; raises a ValueError that names the field if it does not fit."""


def fit_of(type_: "pa.DataType", where: str) -> Fit | None:
    """Returns what makes plain values fit a column; None if pyarrow reads all of them as they are.

    Args:
        type_: The column's type.
        where: The path of the field, for errors.
    """
    import pyarrow as pa

    of = pa.types
    if of.is_decimal(type_):
        return _decimal(type_, where)
    if of.is_timestamp(type_) and type_.tz is not None:
        return _time(where)
    if of.is_struct(type_):
        return _struct(type_, where)
    if of.is_list(type_):
        item = fit_of(type_.value_type, f"{where}[...]")
        return item and _list(item)
    if of.is_map(type_):
        item = fit_of(type_.item_type, f"{where}[...]")
        return item and _map(item)
    return None


def _list(item: Fit) -> Fit:
    return lambda values: values and list(map(item, values))


def _map(item: Fit) -> Fit:
    return lambda values: values and {name: item(value) for name, value in values.items()}


def _struct(type_: "pa.StructType", where: str) -> Fit | None:
    fields = [type_.field(index) for index in range(type_.num_fields)]
    fits = {field.name: fit for field in fields if (fit := fit_of(field.type, f"{where}.{field.name}")) is not None}
    if not fits:
        return None
    return lambda values: values and values | {name: fit(values[name]) for name, fit in fits.items()}


def _decimal(type_: Any, where: str) -> Fit:
    precision, scale = type_.precision, type_.scale
    unit = decimal.Decimal(1).scaleb(-scale)
    traps = [decimal.Inexact, decimal.InvalidOperation]
    exact = decimal.Context(precision, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX, traps=traps)

    def fit(value: decimal.Decimal | None) -> decimal.Decimal | None:
        # Pyarrow dies of an exponent such as -10,000,000, also of a zero.
        try:
            found = None if value is None else value.quantize(unit, context=exact)
        except decimal.DecimalException:
            found = decimal.Decimal("NaN")
        if found is not None and not found.is_finite():
            digits = f"{precision} digits, of which {scale} are behind the point"
            raise ValueError(f"Expected a decimal of at most {digits} - at `{where}`")
        return found

    return fit


def _time(where: str) -> Fit:
    def fit(value: datetime | None) -> datetime | None:
        try:
            return None if value is None else value.astimezone(UTC)
        except OverflowError:
            raise ValueError(f"Expected a time in the years 1 to 9999 UTC, got {value} - at `{where}`") from None

    return fit
