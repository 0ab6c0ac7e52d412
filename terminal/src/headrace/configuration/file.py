"""A configuration that is being read: a TOML file with variables, options that win over it, and everything that is wrong."""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from headrace.configuration.errors import ConfigurationError, Problem
from headrace.configuration.lines import key_lines
from headrace.configuration.validation import validated
from headrace.configuration.variables import VariableError, expanded, referred

M = TypeVar("M", bound=BaseModel)
Key = tuple[str | int, ...]

_PLACE = re.compile(r" ?\(at (?:line (\d+), column \d+|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Flag:
    """A value from the command line, and the option it came with."""

    option: str
    value: Any


class ConfigurationFile:
    """Gathers the problems of a configuration, so that all of them are reported at once.

    Variables in texts are expanded as `variables.expanded` does. Values of options are taken as they are.
    """

    def __init__(
        self, path: Path | None, environ: Mapping[str, str] = os.environ, flags: Mapping[tuple[str, ...], Flag] | None = None
    ) -> None:
        """Reads a file.

        Args:
            path: The file; None where there are only options, or nothing.
            environ: Where variables are looked up.
            flags: Values that replace those of the file, by key: `("limits", "buffer_bytes")`.

        Raises:
            ConfigurationError: It cannot be read, or is not TOML.
        """
        self._path = path
        self._environ = environ
        self._flags = dict(flags or {})
        self._secrets: dict[Key, str] = {}
        self._problems: dict[Key, str] = {}
        self._text, self._document = ("", {}) if path is None else _read(path)

    @property
    def folder(self) -> Path:
        """What paths are relative to: the file's folder, absolute; the current one where there is no file."""
        return Path.cwd() if self._path is None else self._path.absolute().parent

    def table(self, key: Key = ()) -> dict[str, Any]:
        """A table, with all variables in it expanded and with the values of options; empty where there is none."""
        found = self._at(key)
        if found is not None and not isinstance(found, dict):
            self.report(key, "must be a table")
        own = found if isinstance(found, dict) else {}
        table: dict[str, Any] = {name: self._expanded(value, (*key, name)) for name, value in own.items()}
        for at, flag in self._flags.items():
            if at[: len(key)] == key and len(at) > len(key):
                _set(table, at[len(key) :], flag.value)
        return table

    def names(self, key: Key = ()) -> list[str]:
        """The keys of a table of the file, in their order."""
        found = self._at(key)
        return list(found) if isinstance(found, dict) else []

    def count(self, key: Key) -> int:
        """How many elements an array of the file has; 0 where there is none."""
        found = self._at(key)
        return len(found) if isinstance(found, list) else 0

    def secret(self, key: Key) -> str | None:
        """The value of the variable that a text refers to as a whole: `${NAME}`. A secret is never in the file itself.

        Returns:
            None where the key does not exist; an empty text, with the problem noted, where it is not such a reference or the
            variable is not set.
        """
        found = self._at(key)
        if found is None:
            return None
        name = referred(found) if isinstance(found, str) else None
        self._secrets[key] = self._environ.get(name, "") if name else ""
        if name is None:
            self.report(key, f'write {key[-1]} = "${{VARIABLE}}": no secret in a file')
        elif not self._secrets[key]:
            self.report(key, f"the environment variable {name} is not set")
        return self._secrets[key]

    def take(self, model: type[M], values: Mapping[str, Any], key: Key = (), known: Sequence[str] = ()) -> M | None:
        """The values as an instance of a model; None, with the problems noted, where they are invalid.

        Args:
            model: What declares them.
            values: As `table` returned them.
            key: The table that they are in.
            known: Dotted keys that may stand beside those of the model.
        """
        result = validated(model, values, known, folder=self.folder)
        if not isinstance(result, list):
            return result
        for at, message in result:
            self.report((*key, *at), message)
        return None

    def report(self, key: Key, message: str) -> None:
        """Notes a problem; the first of a key is its cause, what follows from it is left out."""
        self._problems.setdefault(key, message)

    def check(self) -> None:
        """Ends the reading of a configuration that has a problem.

        Raises:
            ConfigurationError: It has.
        """
        if self._problems:
            lines = key_lines(self._text)
            raise ConfigurationError([self._problem(lines, key, message) for key, message in self._problems.items()])

    def place(self, key: Key) -> str:
        """Where a key is, for errors: `deploy.toml:3: gateway.listen`."""
        return f"{self._path}:{_line(key_lines(self._text), key)}: {_dotted(key)}"

    def _problem(self, lines: Mapping[Key, int], key: Key, message: str) -> Problem:
        flag = next((flag for at, flag in self._flags.items() if at == key), None)
        if flag is not None:
            return Problem(flag.option, None, "", message)
        if self._path is None:
            return Problem("configuration", None, _dotted(key), message)
        return Problem(str(self._path), _line(lines, key), _dotted(key), message)

    def _at(self, key: Key) -> Any:
        """What the file has at a key; None for nothing."""
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
            return expanded(value, self._environ) if isinstance(value, str) else value
        except VariableError as error:
            self.report(key, str(error))
            return ""


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    """A file's text, and what it says."""

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


def _set(table: dict[str, Any], at: tuple[str, ...], value: Any) -> None:
    """Puts a value into nested tables, making those that are missing."""
    for name in at[:-1]:
        inner = table.setdefault(name, {})
        if not isinstance(inner, dict):
            return  # The file is wrong there, which its model will report.
        table = inner
    table[at[-1]] = value


def _line(lines: Mapping[Key, int], key: Key) -> int | None:
    """The line of a key, or of the innermost table around it; None for the file as a whole."""
    around = (key[:length] for length in range(len(key), 0, -1))
    return next((lines[known] for known in around if known in lines), None)


def _dotted(key: Key) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key).lstrip(".")
