"""Field types for configuration models."""

from collections.abc import Callable
from typing import Annotated, Any, get_args

from pydantic import BeforeValidator, Field
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from headrace.contract.units import UnitError, parse_duration, parse_size


def _size(value: object) -> object:
    try:
        return parse_size(value) if isinstance(value, str) else value
    except UnitError as error:
        raise PydanticCustomError("headrace", "{message}", {"message": str(error)}) from None


def _duration(value: object) -> object:
    try:
        return parse_duration(value).total_seconds() if isinstance(value, str) else value
    except UnitError as error:
        raise PydanticCustomError("headrace", "{message}", {"message": str(error)}) from None


Size = Annotated[int, BeforeValidator(_size), Field(json_schema_extra={"format": "size"})]
"""A size in bytes, as a number or as text such as `64mb`."""


Duration = Annotated[float, BeforeValidator(_duration), Field(allow_inf_nan=False, json_schema_extra={"format": "duration"})]
"""A duration in seconds, as a number or as text such as `30s`."""


def takes_size(field: FieldInfo) -> bool:
    """Returns whether a field has the type `Size`, `Size | None`, or a list of sizes."""
    return _is_validated_by(field, _size)


def takes_duration(field: FieldInfo) -> bool:
    """Returns whether a field has the type `Duration`, `Duration | None`, or a list of durations."""
    return _is_validated_by(field, _duration)


def _is_validated_by(field: FieldInfo, function: Callable[[object], object]) -> bool:
    def marks(metadata: Any) -> bool:
        return any(isinstance(mark, BeforeValidator) and mark.func is function for mark in metadata)

    return marks(field.metadata) or any(marks(get_args(inner)) for inner in get_args(field.annotation))
