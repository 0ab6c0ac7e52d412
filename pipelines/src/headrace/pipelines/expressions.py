"""Conditions in CEL, the Common Expression Language."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import msgspec
from google.protobuf.message import Message

from headrace.pipelines._errors import GraphError
from headrace.pipelines.arguments import excerpt

_NAME = "value"
"""What an expression calls the value."""
_MAX_REASON = 500
"""The length of the reason in an error."""


class Condition:
    """Whether a value meets a condition. Another process compiles its own.

    The expression sees a value as its JSON: dicts, lists, text, numbers and booleans; times, bytes and decimals are text. It sees
    a protobuf message as it is, by the names in its schema.

    Args:
        text: An expression of a boolean: `value.amount > 10 && value.country in ["DE", "FR"]`.

    Raises:
        GraphError: The expression is invalid, or cel-expr-python is not installed.
    """

    def __init__(self, text: str) -> None:
        if find_spec("cel_expr_python") is None:
            raise GraphError("an expression needs cel-expr-python: pip install 'headrace-pipelines[cel]'")
        from cel_expr_python import cel

        self._text, self._bool = text, cel.Type.BOOL
        try:
            self._expression = cel.NewEnv(variables={_NAME: cel.Type.DYN}).compile(text)
        except (RuntimeError, TypeError, ValueError) as error:
            raise GraphError(
                f"{excerpt(text)} is not a condition in CEL: {_first_line(error)}; a value is called {_NAME}"
            ) from error
        kind = self._expression.return_type()
        if kind not in (cel.Type.BOOL, cel.Type.DYN):
            raise GraphError(f"{excerpt(text)} is not a condition: its result is {kind}, not BOOL")

    def __reduce__(self) -> tuple[Any, ...]:
        """Crosses processes as its text."""
        return type(self), (self._text,)

    def __call__(self, value: Any) -> bool:
        """Returns whether a value meets the condition.

        Raises:
            ValueError: The condition has no result for the value, for instance since a field is missing.
            TypeError: The value, or a part of it, has no JSON.
        """
        seen = (
            value if isinstance(value, Message) else _without_tuples(msgspec.to_builtins(value, str_keys=True, enc_hook=_plain))
        )
        try:
            result = self._expression.eval(data={_NAME: seen})
        except RuntimeError as error:  # for instance, it takes too many steps
            raise ValueError(f"{excerpt(self._text)} has no result: {error}") from error
        if result.type() != self._bool:
            found = str(result.plain_value())[:_MAX_REASON]
            raise ValueError(f"{excerpt(self._text)} has no result that is true or false: {found}")
        return bool(result.value())


def _plain(value: Any) -> Any:
    """Returns what msgspec has no JSON for, such as a pydantic model, as something that it has."""
    dump: Callable[[], Any] | None = getattr(value, "model_dump", None)
    if dump is not None:
        return dump()
    if find_spec("pydantic_core") is None:
        raise TypeError(f"an expression cannot see a value of type {type(value).__name__}")
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value)


def _without_tuples(plain: Any) -> Any:
    """Returns a plain value with lists for tuples.

    Raises:
        ValueError: A text contains a zero character, where CEL would end it.
    """
    kind = type(plain)
    if kind is str:
        if "\0" in plain:
            raise ValueError(f"an expression cannot see the text {excerpt(plain)}: it contains a zero character")
        return plain
    if kind is dict:
        return {_without_tuples(name): _without_tuples(value) for name, value in plain.items()}
    return list(map(_without_tuples, plain)) if isinstance(plain, list | tuple) else plain


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].removeprefix("INVALID_ARGUMENT: ERROR: ")
