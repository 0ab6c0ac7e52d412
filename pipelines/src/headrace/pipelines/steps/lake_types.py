"""The types of columns that the formats of tables have."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def lacking(kind: "pa.DataType", format: str) -> "pa.DataType | None":
    """Returns the first type inside a type that tables of a format do not have; None if they have all."""
    if not {"parquet": _has_parquet, "delta": _has_delta, "iceberg": _has_iceberg}[format](kind):
        return kind
    return next((found for each in _inside(kind) if (found := lacking(each, format)) is not None), None)


def _inside(kind: "pa.DataType") -> "list[pa.DataType]":
    import pyarrow as pa

    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return [kind.storage_type]
    if types.is_dictionary(kind):
        return [kind.value_type]
    return [kind.field(number).type for number in range(kind.num_fields)]


def _has_parquet(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    types = pa.types
    if types.is_union(kind) or types.is_run_end_encoded(kind) or types.is_interval(kind):
        return False
    return not (types.is_struct(kind) and not kind.num_fields) and not (types.is_decimal(kind) and kind.scale < 0)


def _has_delta(kind: "pa.DataType") -> bool:
    """Whether readers of Delta find the values that a file has: its types have neither unsigned numbers nor nanoseconds."""
    import pyarrow as pa

    types = pa.types
    if isinstance(kind, pa.BaseExtensionType) or types.is_nested(kind) or types.is_dictionary(kind):
        return _has_parquet(kind)
    if types.is_timestamp(kind):
        return bool(kind.unit in ("us", "ms") and kind.tz in (None, "UTC"))
    if types.is_decimal(kind):
        return bool(types.is_decimal128(kind) and kind.scale >= 0)
    plain = (
        types.is_boolean,
        types.is_signed_integer,
        types.is_float32,
        types.is_float64,
        types.is_date,
        types.is_fixed_size_binary,
    )
    texts = types.is_string, types.is_large_string, types.is_string_view
    return any(holds(kind) for holds in (*plain, *texts, types.is_binary, types.is_large_binary, types.is_binary_view))


def _has_iceberg(kind: "pa.DataType") -> bool:
    """Whether a file has the values of a type as the specification of Iceberg stores them."""
    import pyarrow as pa

    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return False
    if types.is_nested(kind):
        has = types.is_struct, types.is_list, types.is_large_list, types.is_map
        return any(holds(kind) for holds in has) and _has_parquet(kind)
    if types.is_timestamp(kind):
        return bool(kind.unit == "us" and kind.tz in (None, "UTC"))
    if types.is_decimal(kind):
        return bool(types.is_decimal128(kind) and kind.scale >= 0)
    plain = types.is_boolean, types.is_int32, types.is_int64, types.is_float32, types.is_float64, types.is_date32
    texts = types.is_string, types.is_large_string, types.is_string_view, types.is_dictionary
    bytes_ = types.is_fixed_size_binary, types.is_binary, types.is_large_binary, types.is_binary_view
    return any(holds(kind) for holds in (*plain, *texts, *bytes_)) or kind == pa.time64("us")
