"""Values against the class that declares them: what is wrong, in words that say what to write instead."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

M = TypeVar("M", bound=BaseModel)

_WORDING = {
    "missing": "is required",
    "extra_forbidden": "unknown key",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be text in quotes",
    "path_type": "must be text in quotes",
    "list_type": "must be a list in brackets",
    "tuple_type": "must be a list in brackets",
    "dict_type": "must be a table",
    "model_type": "must be a table",
}
_CHOICES = ("literal_error", "enum")
_QUOTED = re.compile(r"'([^']+)'")

Found = tuple[tuple[str | int, ...], str]
"""A key and what is wrong with its value."""


def validated(model: type[M], values: Mapping[str, Any], known: Sequence[str] = (), **context: Any) -> M | list[Found]:
    """The values as an instance of `model`, or what is wrong with them. No value is in what is said of it.

    Args:
        model: What declares them.
        values: By key.
        known: Keys that may stand beside those of the model; one of them may have been meant.
        context: What the model's validators get as their context.
    """
    try:
        return model.model_validate(dict(values), context=context)
    except ValidationError as error:
        return list(_findings(error, model, known))


def nearest(name: str, names: Sequence[str]) -> str:
    """`; did you mean ...?`, where there is a name that resembles this one."""
    near = difflib.get_close_matches(name, names, 1)
    return f"; did you mean {near[0]}?" if near else ""


def _findings(error: ValidationError, model: type[BaseModel], known: Sequence[str]) -> Iterator[Found]:
    for detail in error.errors(include_url=False):
        kind, key, text = detail["type"], detail["loc"], detail["msg"]
        message = _WORDING.get(kind) or re.sub(r"^(Value|Assertion) error, ", "", text.replace("Input should be", "must be"))
        if kind == "extra_forbidden":
            message += nearest(str(key[-1]), [*_names(model, key[:-1]), *(known if len(key) == 1 else ())])
        elif kind in _CHOICES and isinstance(detail["input"], str):
            message += nearest(detail["input"], _QUOTED.findall(text))
        yield key, message


def _names(model: type[BaseModel], table: tuple[str | int, ...]) -> list[str]:
    """The keys that a table may have."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    if not table:
        return list(fields)
    inner = fields[str(table[0])].annotation if table[0] in fields else None
    return _names(inner, table[1:]) if isinstance(inner, type) and issubclass(inner, BaseModel) else []
