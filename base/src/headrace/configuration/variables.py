"""Environment variables in the texts of a configuration: `${NAME}` and `${NAME:-default}`, as in a shell."""

import re
from collections.abc import Mapping

_DOLLAR = re.compile(r"\$\$|\$\{([^}]*)(\}?)")
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_VARIABLE = re.compile(rf"({_NAME})(?::-(.*))?", re.DOTALL)
_OTHER_DEFAULT = re.compile(rf"({_NAME})[:=?+-]")
_REFERENCE = re.compile(rf"\$\{{({_NAME})\}}")


class VariableError(ValueError):
    """A text refers to an unset variable, or the reference is malformed. The message contains no values."""


def expanded(text: str, environ: Mapping[str, str]) -> str:
    """Expands the variables in a text; `$$` stands for `$`.

    The default in `${NAME:-default}` is used if the variable is unset or empty; it cannot contain `}`.

    Raises:
        VariableError: A variable without a default is not set, or a reference is malformed.
    """
    return _DOLLAR.sub(lambda match: "$" if match[1] is None else _value(match[1], bool(match[2]), environ), text)


def referred(text: str) -> str | None:
    """Returns the name of the variable if the whole text is `${NAME}`; otherwise None."""
    match = _REFERENCE.fullmatch(text)
    return match[1] if match else None


def names_in(text: str) -> frozenset[str]:
    """Returns the names of all variables in a text."""
    found = (_VARIABLE.fullmatch(match[1]) for match in _DOLLAR.finditer(text) if match[1] is not None)
    return frozenset(variable[1] for variable in found if variable is not None)


def _value(inner: str, closed: bool, environ: Mapping[str, str]) -> str:
    variable = _VARIABLE.fullmatch(inner) if closed else None
    if variable is None:
        # The text may be part of a secret, so at most the name is shown.
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
