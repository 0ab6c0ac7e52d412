"""Field types for configuration models."""

from typing import Annotated, Any, get_args

from pydantic import BeforeValidator, Field
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from headrace.contract.units import UnitError, parse_size


def _size(value: object) -> object:
    try:
        return parse_size(value) if isinstance(value, str) else value
    except UnitError as error:
        raise PydanticCustomError("headrace", "{message}", {"message": str(error)}) from None


Size = Annotated[int, BeforeValidator(_size), Field(json_schema_extra={"format": "size"})]
"""A size in bytes, as a number or as text such as `64mb`."""


def takes_size(field: FieldInfo) -> bool:
    """Returns whether a field has the type `Size` or `Size | None`."""

    def marks(metadata: Any) -> bool:
        return any(isinstance(mark, BeforeValidator) and mark.func is _size for mark in metadata)

    return marks(field.metadata) or any(marks(get_args(inner)) for inner in get_args(field.annotation))
