"""Arrow columns of objects of an application's classes: a column for each field."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct, inspect
from msgspec.structs import astuple

from headrace.pipelines._errors import GraphError
from headrace.pipelines.formats.arrays import array_of, check, is_in_calendar
from headrace.pipelines.formats.records import called, is_protobuf, is_pydantic, taker

if TYPE_CHECKING:
    import pyarrow as pa

_WHOLE, _TIMES = {int, str, bytes, type(None)}, {datetime, type(None)}
"""Classes whose values a column holds whole, if it takes them: one of times, if they are in the calendar, and any other one."""


@dataclass(frozen=True)
class Columns:
    """How objects of a class become a record batch.

    Attributes:
        schema: The columns, in the order of the fields.
        getters: Returns the value of each column from an object.
        struct: The class, if it is a msgspec `Struct` whose instances give all values at once.
    """

    schema: "pa.Schema"
    getters: Sequence[Callable[[Any], Any]]
    struct: type[Struct] | None = None

    def batch(self, objects: Sequence[Any]) -> "pa.RecordBatch":
        """Returns a row for each object. It may raise any exception if one does not fit."""
        import pyarrow as pa

        if self.struct is not None and set(map(type, objects)) == {self.struct}:
            tuples = list(map(astuple, objects))
            rows = pa.array(tuples, pa.struct(list(self.schema)))
            for values, field in zip(zip(*tuples, strict=True), self.schema, strict=True):
                if not set(map(type, values)) <= (_TIMES if pa.types.is_timestamp(field.type) else _WHOLE):
                    check(values, field.type)
            if not all(map(is_in_calendar, rows.flatten())):
                raise OverflowError("a time is outside the years 1 to 9999 UTC")
            return pa.RecordBatch.from_arrays(rows.flatten(), schema=self.schema)
        arrays = [array_of(list(map(get, objects)), field.type) for get, field in zip(self.getters, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def columns_of(kind: Any) -> Columns:
    """Returns the columns of a class.

    Raises:
        GraphError: The type is not a class with fields, or a field is of a type that Arrow does not have.
    """
    import pyarrow as pa

    get = itemgetter if _is_dict(kind) else attrgetter
    fields: list[pa.Field[Any]] = []
    getters: list[Callable[[Any], Any]] = []
    is_flat = True
    for name, attribute, type_ in _fields(kind):
        arrow, is_nullable, is_nested = _arrow(type_, f"{called(kind)}.{name}")
        fields.append(pa.field(name, arrow, is_nullable))
        getters.append(_plain_of(get(attribute)) if is_nested else get(attribute))
        is_flat = is_flat and not is_nested
    at_once = fields and is_flat and isinstance(kind, type) and issubclass(kind, Struct)
    return Columns(pa.schema(fields), getters, kind if at_once else None)


def _plain_of(get: Callable[[Any], Any]) -> Callable[[Any], Any]:
    plain = taker(Any)
    return lambda value: plain(get(value))


def _is_dict(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, dict)


def _fields(kind: Any) -> list[tuple[str, str, inspect.Type]]:
    """Returns name, attribute and type of each field of a class."""
    try:
        if is_pydantic(kind):
            models = kind.__pydantic_fields__
            return [(name, name, inspect.type_info(field.annotation)) for name, field in models.items()]
        info = None if is_protobuf(kind) else inspect.type_info(kind)
    except Exception as error:
        raise GraphError(f"{called(kind)} has no columns: {error}") from error
    if isinstance(info, _RECORDS):
        return [(field.name, field.name, field.type) for field in info.fields]
    raise GraphError(
        f"dataclasses, NamedTuples, TypedDicts, msgspec Structs and pydantic models have columns, not {called(kind)}"
    )


def _arrow(type_: inspect.Type, where: str) -> tuple["pa.DataType", bool, bool]:
    """Returns the Arrow type of a type, whether it may be null, and whether its values must be made plain first."""
    import pyarrow as pa

    if isinstance(type_, inspect.Metadata):
        return _arrow(type_.type, where)
    if isinstance(type_, inspect.UnionType):
        others = [one for one in type_.types if not isinstance(one, inspect.NoneType)]
        if len(others) == 1:
            arrow, _, is_nested = _arrow(others[0], where)
            return arrow, True, is_nested
    elif isinstance(type_, inspect.ListType | inspect.VarTupleType | inspect.SetType | inspect.FrozenSetType):
        return pa.list_(_arrow(type_.item_type, f"{where}[...]")[0]), False, True
    elif isinstance(type_, inspect.DictType):
        if isinstance(type_.key_type, inspect.StrType):
            return pa.map_(pa.string(), _arrow(type_.value_type, f"{where}[...]")[0]), False, True
    elif isinstance(type_, _RECORDS):
        inner = [pa.field(f.encode_name, *_arrow(f.type, f"{where}.{f.encode_name}")[:2]) for f in type_.fields]
        return pa.struct(inner), False, True
    elif type(type_) in _PLAIN:
        return _PLAIN[type(type_)](pa), False, False
    raise GraphError(f"{where} is of a type that has no Arrow column; map the values to a class without it")


_RECORDS = (inspect.DataclassType, inspect.StructType, inspect.NamedTupleType, inspect.TypedDictType)
_PLAIN: dict[type[inspect.Type], Callable[[Any], Any]] = {
    inspect.BoolType: lambda pa: pa.bool_(),
    inspect.IntType: lambda pa: pa.int64(),
    inspect.FloatType: lambda pa: pa.float64(),
    inspect.StrType: lambda pa: pa.string(),
    inspect.BytesType: lambda pa: pa.binary(),
    inspect.DateTimeType: lambda pa: pa.timestamp("us", tz="UTC"),
    inspect.DateType: lambda pa: pa.date32(),
    inspect.TimeType: lambda pa: pa.time64("us"),
    inspect.TimeDeltaType: lambda pa: pa.duration("us"),
}
