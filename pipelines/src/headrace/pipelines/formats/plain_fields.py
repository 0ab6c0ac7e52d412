"""Classes whose objects have the values of records unchanged: no check, no conversion and no function of the application."""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

from msgspec import NODEFAULT, Struct, inspect

from headrace.pipelines.formats.records import calls_application, is_protobuf, is_pydantic

_RECORDS = (inspect.StructType, inspect.DataclassType, inspect.TypedDictType)
_TYPES: Sequence[tuple[inspect.Type, type]] = (
    (inspect.StrType(), str),
    (inspect.IntType(), int),
    (inspect.FloatType(), float),
    (inspect.BoolType(), bool),
    (inspect.DateTimeType(), datetime.datetime),
)
"""The types of fields without a condition."""
_OF_MODELS: Mapping[str, type] = {"str": str, "int": int, "float": float, "bool": bool}
"""The same, as pydantic names them."""


@dataclass(frozen=True)
class PlainField:
    """A field.

    Attributes:
        key: Its name in records.
        name: Its name in the class.
        kind: The class of its values.
        nullable: Whether it may be None.
        default: Its value in an object whose record lacks it; `NODEFAULT` if none can be used again.
    """

    key: str
    name: str
    kind: type
    nullable: bool
    default: Any

    @property
    def has_default(self) -> bool:
        """Whether the default is of the field's type, which libraries do not check, and has no zone of its own."""
        if self.default is None:
            return self.nullable
        return type(self.default) is self.kind and self.kind is not datetime.datetime


def plain_fields(kind: Any) -> Sequence[PlainField] | None:
    """Returns the fields of a class whose objects have the values of records unchanged; None of another one."""
    if not isinstance(kind, type) or is_protobuf(kind):
        return None
    try:
        if is_pydantic(kind):
            return _of_model(kind.__pydantic_core_schema__)  # type: ignore[attr-defined]
        info = inspect.type_info(kind)
        if calls_application(kind) or not isinstance(info, _RECORDS):
            return None
    except Exception:
        return None  # a class without columns, of which its format complains
    if isinstance(info, inspect.StructType) and (info.array_like or info.forbid_unknown_fields or info.tag_field is not None):
        return None
    found = [_of_record(field) for field in info.fields]
    return [field for field in found if field is not None] if None not in found else None


def takes_values(kind: Any, names: Sequence[str]) -> bool:
    """Whether calling a class with the values of these fields in order makes the object that msgspec makes of a record."""
    own = {name for base in kind.__mro__ if base not in Struct.__mro__ for name in base.__dict__}
    changed = {"__new__", "__setattr__"} & own
    if type(kind) not in (type, type(Struct)):
        return False  # its metaclass may change what a call returns
    if not issubclass(kind, Struct):
        params = kind.__dict__.get("__dataclass_params__")
        if params is None or not params.init or len(dataclasses.fields(kind)) != len(kind.__dataclass_fields__):
            return False
        changed -= {"__setattr__"} if params.frozen else set()
        changed |= set() if _is_generated(kind.__init__) else {"__init__"}
    if changed:
        return False
    parameters = signature(kind).parameters
    return list(parameters) == list(names) and {each.kind for each in parameters.values()} == {Parameter.POSITIONAL_OR_KEYWORD}


def _is_generated(init: Any) -> bool:
    """Whether `dataclasses` has written a function, which it keeps from replacing one of the class."""
    code = getattr(init, "__code__", None)
    return code is not None and code.co_filename == "<string>" and code.co_qualname.startswith("__create_fn__.")


def _of_record(field: inspect.Field) -> PlainField | None:
    types = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
    others = [one for one in types if not isinstance(one, inspect.NoneType)]
    nullable = len(others) < len(types)
    for plain, kind in _TYPES:
        if others == [plain]:
            return PlainField(field.encode_name, field.name, kind, nullable, field.default)
    return None


def _of_model(model: Mapping[str, Any]) -> Sequence[PlainField] | None:
    """The fields of a pydantic model without validators, aliases and settings."""
    if model["type"] != "model" or model["custom_init"] or model["root_model"] or "post_init" in model:
        return None
    if set(model.get("config", ())) > {"title"} or model["schema"]["type"] != "model-fields":
        return None
    found = list[PlainField]()
    for name, field in model["schema"]["fields"].items():
        schema, default, nullable = field["schema"], NODEFAULT, False
        if not set(field) <= {"type", "schema", "metadata"}:
            return None
        if schema["type"] == "default" and set(schema) == {"type", "schema", "default"}:
            schema, default = schema["schema"], schema["default"]
        if schema["type"] == "nullable" and set(schema) == {"type", "schema"}:
            schema, nullable = schema["schema"], True
        if set(schema) != {"type"} or schema["type"] not in _OF_MODELS:
            return None
        found.append(PlainField(name, name, _OF_MODELS[schema["type"]], nullable, default))
    return found
