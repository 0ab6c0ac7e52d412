"""Conditions in CEL, the Common Expression Language."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import msgspec

from headrace.pipelines._errors import GraphError

_NAME = "value"
"""What an expression calls the value."""


class Condition:
    """Whether a value meets a condition. Another process compiles its own.

    The expression sees a value as its JSON: dicts, lists, text, numbers and booleans; times, bytes and decimals are text.

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
            raise GraphError(f"{text!r} is not a condition in CEL: {_first_line(error)}; a value is called {_NAME}") from error
        kind = self._expression.return_type()
        if kind not in (cel.Type.BOOL, cel.Type.DYN):
            raise GraphError(f"{text!r} is not a condition: its result is {kind}, not BOOL")

    def __reduce__(self) -> tuple[Any, ...]:
        """Crosses processes as its text."""
        return type(self), (self._text,)

    def __call__(self, value: Any) -> bool:
        """Returns whether a value meets the condition.

        Raises:
            ValueError: The condition has no result for the value, for instance since a field is missing.
        """
        result = self._expression.eval(data={_NAME: _plain(value)})
        if result.type() != self._bool:
            raise ValueError(f"{self._text!r} has no result that is true or false: {result.plain_value()}")
        return bool(result.value())


def _plain(value: Any) -> Any:
    dump: Callable[..., Any] | None = getattr(value, "model_dump", None)
    return msgspec.to_builtins(value, str_keys=True) if dump is None else dump(mode="json")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].removeprefix("INVALID_ARGUMENT: ERROR: ")
