"""A class like another one that refuses further fields, and does not look at values: to find documents without such fields."""

from typing import Any

import msgspec
from msgspec import inspect

_RECORDS = (inspect.DataclassType, inspect.StructType, inspect.TypedDictType)
_LISTS = (inspect.ListType, inspect.VarTupleType, inspect.SetType, inspect.FrozenSetType, inspect.CollectionType)


class _NoTwin(Exception):
    """A type has no twin."""


def strict_twin(kind: Any) -> Any:
    """Returns the type that refuses further fields at any depth; None if there is none, such as of a class inside itself."""
    try:
        return _twin(inspect.type_info(kind), ())
    except Exception:
        return None


def _twin(type_: inspect.Type, above: tuple[Any, ...]) -> Any:
    if isinstance(type_, inspect.Metadata):
        return _twin(type_.type, above)
    if isinstance(type_, _RECORDS):
        return _record(type_, above)
    if isinstance(type_, _LISTS):
        item = _twin(type_.item_type, above)
        return item if item is msgspec.Raw else list[item]  # type: ignore[valid-type]
    if isinstance(type_, inspect.DictType):
        value = _twin(type_.value_type, above)
        return value if value is msgspec.Raw else dict[str, value]  # type: ignore[valid-type]
    if isinstance(type_, inspect.UnionType):
        twins = [_twin(one, above) for one in type_.types if not isinstance(one, inspect.NoneType)]
        if len(twins) == 1:
            return twins[0] if twins[0] is msgspec.Raw else twins[0] | None
        inner = twins
    elif isinstance(type_, inspect.TupleType | inspect.NamedTupleType):
        fields = type_.fields if isinstance(type_, inspect.NamedTupleType) else ()
        inner = [_twin(one, above) for one in (*getattr(type_, "item_types", ()), *(field.type for field in fields))]
    else:
        return msgspec.Raw
    if any(one is not msgspec.Raw for one in inner):
        raise _NoTwin
    return msgspec.Raw


def _record(type_: Any, above: tuple[Any, ...]) -> Any:
    if type_.cls in above or getattr(type_, "array_like", False):
        raise _NoTwin
    names = [field.encode_name for field in type_.fields]
    twins = [_twin(field.type, (*above, type_.cls)) for field in type_.fields]
    if tag := getattr(type_, "tag_field", None):
        names.append(tag)
        twins.append(msgspec.Raw)
    made: list[Any] = [(f"f{number}", twin, msgspec.UNSET) for number, twin in enumerate(twins)]
    rename = {f"f{number}": name for number, name in enumerate(names)}
    return msgspec.defstruct("Twin", made, rename=rename, kw_only=True, gc=False, forbid_unknown_fields=True)
