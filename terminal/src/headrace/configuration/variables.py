"""Environment variables in the texts of a configuration: `${NAME}` and `${NAME:-default}`, as in a shell."""

import re
from collections.abc import Mapping

_DOLLAR = re.compile(r"\$\$|\$\{([^}]*)(\}?)")
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_VARIABLE = re.compile(rf"({_NAME})(?::-(.*))?", re.DOTALL)
_OTHER_DEFAULT = re.compile(rf"({_NAME})[:=?+-]")
_REFERENCE = re.compile(rf"\$\{{({_NAME})\}}")


class VariableError(ValueError):
    """A text refers to a variable that is not set, or in a way that is not understood. The message has no value in it."""


def expanded(text: str, environ: Mapping[str, str]) -> str:
    """A text with its variables replaced; `$$` is a `$`.

    The default of `${NAME:-default}` is taken where the variable is not set or empty; it cannot contain a `}`.

    Raises:
        VariableError: A variable without a default is not set, or what follows `${` is neither of the two forms.
    """
    return _DOLLAR.sub(lambda match: "$" if match[1] is None else _value(match[1], bool(match[2]), environ), text)


def referred(text: str) -> str | None:
    """The name of the variable where a text is `${NAME}` and nothing else."""
    match = _REFERENCE.fullmatch(text)
    return match[1] if match else None


def _value(inner: str, closed: bool, environ: Mapping[str, str]) -> str:
    variable = _VARIABLE.fullmatch(inner) if closed else None
    if variable is None:
        # What is written there may be part of a secret: at most the name is shown.
        other = _OTHER_DEFAULT.match(inner)
        if other is not None:
            raise VariableError(f"write ${{{other[1]}:-default}}: the default of a variable follows :-")
        raise VariableError("write ${NAME} or ${NAME:-default} for a variable, and $$ for a dollar sign")
    name, default = variable.groups()
    given = environ.get(name)
    if default is not None:
        return given or default
    if given is None:
        raise VariableError(f"the environment variable {name} is not set; set it, or write ${{{name}:-default}}")
    return given
