"""How names, values and conditions get into statements: the only place that quotes. Pure functions.

Every statement is executed with parameters, so psycopg reads each `%` of its text as the beginning of a placeholder: what is not
ours must be doubled. Names of columns are always qualified by the alias of their table, because an unqualified one may mean an
output column, a parameter or a whole row with the same name.
"""

from collections.abc import Iterable
from typing import Any, LiteralString

from psycopg import sql
from psycopg.abc import AdaptContext


class _Name(sql.Identifier):
    def as_bytes(self, context: AdaptContext | None = None) -> bytes:
        return super().as_bytes(context).replace(b"%", b"%%")


class _Value(sql.Literal):
    def as_bytes(self, context: AdaptContext | None = None) -> bytes:
        return super().as_bytes(context).replace(b"%", b"%%")


def name(*parts: str) -> sql.Identifier:
    """Returns a name, qualified or not, such as `"schema"."table"`, or `"alias"."column"`."""
    return _Name(*parts)


def value(of: object) -> sql.Literal:
    """Returns a constant."""
    return _Value(of)


def names(words: Iterable[str], of: str | None = None) -> sql.Composed:
    """Returns a list of names; with an alias, each is qualified by it."""
    return sql.SQL(", ").join(name(*(() if of is None else (of,)), each) for each in words)


def condition(text: str) -> sql.Composed:
    """Returns a condition that the user writes in SQL, in parentheses that also end after a comment."""
    return sql.SQL("({}\n)").format(_written(text))


def type_(text: str) -> sql.SQL:
    """Returns a type, as the server itself writes it."""
    return _written(text)


def plain(statement: sql.Composable) -> str:
    """Returns the text of a statement that is not executed with parameters, but is part of a value."""
    return statement.as_string(None).replace("%%", "%")


def free(name: str, existing: Iterable[str]) -> str:
    """Returns a name that is not among others."""
    others = set(existing)
    while name in others:
        name += "_"
    return name


def _written(text: Any) -> sql.SQL:
    literal: LiteralString = text.replace("%", "%%")
    return sql.SQL(literal)
