"""Reads a configuration: a TOML file with variables, and command-line options that override it. Collects all problems."""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from headrace.configuration.env_files import read_env_file
from headrace.configuration.errors import ConfigurationError, Problem
from headrace.configuration.lines import key_lines
from headrace.configuration.validation import validated
from headrace.configuration.variables import VariableError, expanded, names_in, referred

M = TypeVar("M", bound=BaseModel)
Key = tuple[str | int, ...]

_PLACE = re.compile(r" ?\(at (?:line (\d+), column \d+|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Flag:
    """A value from the command line, and the option that set it."""

    option: str
    value: Any


class ConfigurationFile:
    """Collects the problems of a configuration, so that all of them are reported together.

    Variables in texts are expanded with `variables.expanded`. Values of options are used unchanged.
    """

    def __init__(
        self,
        path: Path | None,
        environ: Mapping[str, str] | None = os.environ,
        flags: Mapping[tuple[str, ...], Flag] | None = None,
    ) -> None:
        """Reads a file.

        Args:
            path: The file; None if there is none.
            environ: The environment in which variables are looked up; None if the file has no variables.
            flags: Values that override the file's, by key: `("limits", "buffer_bytes")`.

        Raises:
            ConfigurationError: The file cannot be read, or is not TOML.
        """
        self._path = path
        self._environ = environ
        self._flags = dict(flags or {})
        self._secrets: dict[Key, str] = {}
        self._problems: dict[Key, str] = {}
        self._text, self._document = ("", {}) if path is None else _read(path)

    @property
    def folder(self) -> Path:
        """The absolute folder that paths are relative to: the file's, or the working directory if there is no file."""
        return Path.cwd() if self._path is None else self._path.absolute().parent

    def table(self, key: Key = ()) -> dict[str, Any]:
        """Returns a table, with expanded variables and the values of options; empty if it does not exist."""
        found = self._at(key)
        if found is not None and not isinstance(found, dict):
            self.report(key, "must be a table")
        own = found if isinstance(found, dict) else {}
        table: dict[str, Any] = {name: self._expanded(value, (*key, name)) for name, value in own.items()}
        for at, flag in self._flags.items():
            if at[: len(key)] == key and len(at) > len(key):
                _set(table, at[len(key) :], flag.value)
        return table

    def value(self, key: Key) -> Any:
        """Returns one value of the file with expanded variables; None if it does not exist."""
        found = self._at(key)
        return None if found is None else self._expanded(found, key)

    def names(self, key: Key = ()) -> list[str]:
        """Returns the keys of a table in the file, in order."""
        found = self._at(key)
        return list(found) if isinstance(found, dict) else []

    def count(self, key: Key) -> int:
        """Returns the number of elements of an array in the file; 0 if it does not exist."""
        found = self._at(key)
        return len(found) if isinstance(found, list) else 0

    def variables(self, key: Key = ()) -> frozenset[str]:
        """Returns the names of the variables in all texts of a table, or of the file."""
        return frozenset(_names_in(self._at(key)))

    def take_env_file(self, key: Key) -> tuple[Path | None, Mapping[str, str]]:
        """Reads the file of variables that a key names; from then on, its variables precede the variables of the environment.

        Returns:
            The file, None if the key does not exist; and its variables, none, after recording the problem, if it is invalid.
        """
        found = self.value(key)
        if found is None:
            return None, {}
        if not isinstance(found, str) or not found:
            self.report(key, "must be text in quotes: the name of a file")
            return None, {}
        path = self.folder / Path(found).expanduser()
        try:
            variables = read_env_file(path)
        except ConfigurationError as error:
            self.report(key, "; ".join(map(str, error.problems)))
            return path, {}
        self._environ = {**(self._environ or {}), **variables}
        return path, variables

    def secret(self, key: Key) -> str | None:
        """Returns the value of the variable that a text consists of: `${NAME}`. The file must not contain the secret itself.

        Returns:
            None if the key does not exist; an empty text, after recording the problem, if the value is not such a reference or
            the variable is not set.
        """
        found = self._at(key)
        if found is None:
            return None
        name = referred(found) if isinstance(found, str) else None
        self._secrets[key] = (self._environ or {}).get(name, "") if name else ""
        if name is None:
            self.report(key, f'write {key[-1]} = "${{VARIABLE}}": the file must not contain secrets')
        elif not self._secrets[key]:
            self.report(key, f"the environment variable {name} is not set")
        return self._secrets[key]

    def take(self, model: type[M], values: Mapping[str, Any], key: Key = (), known_keys: Sequence[str] = ()) -> M | None:
        """Converts values to an instance of a model; returns None, after recording the problems, if they are invalid.

        Args:
            model: The model.
            values: The values, from `table`.
            key: The table that contains them.
            known_keys: Dotted keys that are allowed besides the model's.
        """
        result = validated(model, values, known_keys, folder=self.folder)
        if not isinstance(result, list):
            return result
        for at, message in result:
            self.report((*key, *at), message)
        return None

    def report(self, key: Key, message: str) -> None:
        """Records a problem. Only the first problem of each key is kept: it is the cause of the others."""
        self._problems.setdefault(key, message)

    def check(self) -> None:
        """Checks that no problem was recorded.

        Raises:
            ConfigurationError: The configuration has problems.
        """
        if self._problems:
            lines = key_lines(self._text)
            raise ConfigurationError([self._problem(lines, key, message) for key, message in self._problems.items()])

    def place(self, key: Key) -> str:
        """Returns the location of a key, for errors: `deploy.toml:3: gateway.listen`."""
        return f"{self._path}:{_line(key_lines(self._text), key)}: {_dotted(key)}"

    def _problem(self, lines: Mapping[Key, int], key: Key, message: str) -> Problem:
        flag = next((flag for at, flag in self._flags.items() if at == key), None)
        if flag is not None:
            return Problem(flag.option, None, "", message)
        if self._path is None:
            return Problem("configuration", None, _dotted(key), message)
        return Problem(str(self._path), _line(lines, key), _dotted(key), message)

    def _at(self, key: Key) -> Any:
        """Returns the file's value of a key; None if it does not exist."""
        found: Any = self._document
        for part in key:
            if isinstance(part, int):
                found = found[part] if isinstance(found, list) and part < len(found) else None
            else:
                found = found.get(part) if isinstance(found, dict) else None
        return found

    def _expanded(self, value: Any, key: Key) -> Any:
        if isinstance(value, dict):
            return {name: self._expanded(inner, (*key, name)) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._expanded(inner, (*key, index)) for index, inner in enumerate(value)]
        if key in self._secrets:
            return self._secrets[key]
        try:
            return expanded(value, self._environ) if isinstance(value, str) and self._environ is not None else value
        except VariableError as error:
            self.report(key, str(error))
            return ""


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    """Returns the text of a file, and its parsed contents."""

    def unreadable(message: str, line: int | None = None) -> ConfigurationError:
        return ConfigurationError([Problem(str(path), line, "", message)])

    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except OSError as error:
        raise unreadable(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise unreadable("is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        line = int(place[1]) if place and place[1] else text.count("\n") + 1
        raise unreadable(f"not valid TOML: {_PLACE.sub('', str(error))}", line) from None
    except RecursionError:
        raise unreadable("is nested too deeply") from None
    except ValueError as error:  # A number with too many digits, which tomllib leaves to int().
        raise unreadable(f"not valid TOML: {error}") from None


def _names_in(value: Any) -> Iterator[str]:
    """Yields the names of the variables in all texts of a value."""
    if isinstance(value, str):
        yield from names_in(value)
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _names_in(inner)


def _set(table: dict[str, Any], at: tuple[str, ...], value: Any) -> None:
    """Sets a value in nested tables, creating missing ones."""
    for name in at[:-1]:
        inner = table.setdefault(name, {})
        if not isinstance(inner, dict):
            return  # The file has another type there, which the model will report.
        table = inner
    table[at[-1]] = value


def _line(lines: Mapping[Key, int], key: Key) -> int | None:
    """Returns the line of a key, or of the innermost table around it; None for the whole file."""
    around = (key[:length] for length in range(len(key), 0, -1))
    return next((lines[known] for known in around if known in lines), None)


def _dotted(key: Key) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key).lstrip(".")
