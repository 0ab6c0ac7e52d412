"""A TOML file that is being read, and everything that is wrong with it."""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from headrace.configuration._errors import ConfigurationError, Problem
from headrace.configuration._validate import validated
from headrace.terminal import key_lines

M = TypeVar("M", bound=BaseModel)
Key = tuple[str | int, ...]

_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?:(:-?)([^}]*))?\}")
_PLACE = re.compile(r" ?\(at (?:line (\d+), column \d+|end of document)\)$")


class ConfigurationFile:
    """Gathers the problems of a file, so that all of them are told at once.

    In any text, `${NAME}` and `${NAME:-default}` are taken from the environment; `$$` is a `$`. The default is taken where the
    variable is empty, too; that of `${NAME:default}`, as the gateway's configuration has it, only where it is not set.
    """

    def __init__(self, path: Path, environ: Mapping[str, str] = os.environ) -> None:
        """Reads a file.

        Raises:
            ConfigurationError: It cannot be read, or is no TOML.
        """
        self.path = path
        self._environ = environ
        self._problems: list[tuple[Key, str]] = []
        try:
            self._text = path.read_text(encoding="utf-8")
            self._document = tomllib.loads(self._text)
        except OSError as error:
            raise self._unreadable(f"cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise self._unreadable("is not UTF-8 text") from None
        except tomllib.TOMLDecodeError as error:
            place = _PLACE.search(str(error))
            line = int(place[1]) if place and place[1] else self._text.count("\n") + 1
            raise self._unreadable(f"not valid TOML: {_PLACE.sub('', str(error))}", line) from None

    def table(self, key: Key = ()) -> dict[str, Any]:
        """A table, with all variables in it expanded; empty where there is none."""
        found = self._at(key)
        if not isinstance(found, dict):
            self.report(key, "must be a table")
            return {}
        return {name: self._expanded(value, (*key, name)) for name, value in found.items()}

    def names(self, key: Key = ()) -> list[str]:
        """The keys of a table, in their order."""
        found = self._at(key)
        return list(found) if isinstance(found, dict) else []

    def take(self, model: type[M], values: Mapping[str, Any], key: Key = (), known: Sequence[str] = ()) -> M | None:
        """The values as an instance of a model; None, with the problems noted, where they are none.

        Args:
            model: What declares them.
            values: As `table` gave them.
            key: The table that they are in.
            known: Keys that may stand beside those of the model.
        """
        result = validated(model, values, known, folder=self.path.absolute().parent)
        if not isinstance(result, list):
            return result
        for at, message in result:
            self.report((*key, *at), message)
        return None

    def report(self, key: Key, message: str) -> None:
        """Notes a problem; the first of a key is its cause, what follows from it is left out."""
        if not any(key == other for other, _ in self._problems):
            self._problems.append((key, message))

    def check(self) -> None:
        """Ends the reading of a file that has a problem.

        Raises:
            ConfigurationError: It has.
        """
        if self._problems:
            lines = self._lines()
            raise ConfigurationError(
                [Problem(str(self.path), _line(lines, key), _dotted(key), message) for key, message in self._problems]
            )

    def place(self, key: Key) -> str:
        """Where a key is, for errors: `deploy.toml:3: gateway.listen`."""
        return f"{self.path}:{_line(self._lines(), key)}: {_dotted(key)}"

    def _at(self, key: Key) -> Any:
        found: Any = self._document
        for part in key:
            found = found.get(part, {}) if isinstance(found, dict) else {}
        return found

    def _lines(self) -> dict[Key, int]:
        return key_lines(self._text)

    def _unreadable(self, message: str, line: int | None = None) -> ConfigurationError:
        return ConfigurationError([Problem(str(self.path), line, "", message)])

    def _expanded(self, value: Any, key: Key) -> Any:
        if isinstance(value, dict):
            return {name: self._expanded(inner, (*key, name)) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._expanded(inner, (*key, index)) for index, inner in enumerate(value)]
        if not isinstance(value, str):
            return value

        def replaced(match: re.Match[str]) -> str:
            name, colon, default = match[1], match[2], match[3]
            if name is None:
                return "$"
            if default is None and name not in self._environ:
                self.report(key, f"the environment variable {name} is not set; set it, or write ${{{name}:-default}}")
            given = self._environ.get(name)
            return (default or "") if given is None or (colon == ":-" and not given) else given

        return _VARIABLE.sub(replaced, value)


def _line(lines: Mapping[Key, int], key: Key) -> int | None:
    """The line of a key, or of the innermost table around it; None for the file as a whole."""
    around = (key[:length] for length in range(len(key), 0, -1))
    return next((lines[known] for known in around if known in lines), None)


def _dotted(key: Key) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key).lstrip(".")
