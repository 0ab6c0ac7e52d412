"""From a TOML file, the environment and command-line flags to a checked `Config`.

Every problem names file, line and key. Flags win over the file.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from headrace.gateway._config import Config, Limits, Log, StreamRule, Tls, Token
from headrace.gateway._errors import ConfigError, Problem
from headrace.gateway._identity import token_digest
from headrace.gateway._tls import check_files
from headrace.terminal import key_lines

Key = tuple[str | int, ...]

_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::([^}]*))?\}")
_TOKEN_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_TOML_PLACE = re.compile(r" ?\(at (?:line (\d+), column \d+|end of document)\)$")
_TABLES: dict[tuple[str, ...], type[BaseModel]] = {
    (): Config,
    ("limits",): Limits,
    ("streams",): StreamRule,
    ("tls",): Tls,
    ("tokens",): Token,
    ("log",): Log,
}
_WORDING = {
    "missing": "is required",
    "extra_forbidden": "unknown key",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be text in quotes",
    "tuple_type": "must be a list in brackets",
    "model_type": "must be a table",
}


@dataclass(frozen=True)
class Flag:
    """A value from the command line, and the option it came with."""

    option: str
    value: Any


OPTION_KEYS = {
    "listen": ("listen",),
    "insecure": ("insecure",),
    "tls_cert": ("tls", "cert"),
    "tls_key": ("tls", "key"),
    "tls_client_ca": ("tls", "client_ca"),
    "buffer_bytes": ("limits", "buffer_bytes"),
    "max_frame_bytes": ("limits", "max_frame_bytes"),
    "max_sessions": ("limits", "max_sessions"),
    "drain_timeout_ms": ("limits", "drain_timeout_ms"),
    "log_format": ("log", "format"),
    "log_level": ("log", "level"),
}
"""Where each option of `headrace gateway` stands in the configuration."""


def load_config(
    path: Path | None = None, flags: Mapping[tuple[str, ...], Flag] | None = None, environ: Mapping[str, str] = os.environ
) -> Config:
    """Reads and checks a configuration; raises ConfigError with every problem found.

    Args:
        path: a TOML file; None means all defaults.
        flags: what to put in the file's place, by key: `("limits", "buffer_bytes")`.
        environ: where `${VARIABLE}` and `${VARIABLE:default}` are looked up.
    """
    return _Loading(path, flags or {}, environ).run()


class _Loading:
    """One reading of one configuration, gathering its problems."""

    def __init__(self, path: Path | None, flags: Mapping[tuple[str, ...], Flag], environ: Mapping[str, str]) -> None:
        self._path = path
        self._flags = flags
        self._environ = environ
        self._lines: dict[Key, int] = {}
        self._problems: dict[Key, Problem] = {}

    def run(self) -> Config:
        document = self._expanded(self._document(), ())
        self._digest_tokens(document)
        for key, flag in self._flags.items():
            table = document
            for part in key[:-1]:
                table = table.setdefault(part, {})
            table[key[-1]] = flag.value
        config = None
        try:
            config = Config.model_validate(document, context={"folder": self._path.parent if self._path else Path()})
        except ValidationError as error:
            for detail in error.errors():
                self._report(detail["loc"], _message(detail["loc"], detail["type"], detail["msg"], detail["input"]))
        if config is not None and config.tls is not None:
            for name, message in check_files(config.tls):
                self._report(("tls", name), message)
        if config is None or self._problems:
            raise ConfigError([problem for _, problem in sorted(self._problems.items(), key=lambda item: self._line(item[0]))])
        return config

    def _document(self) -> dict[str, Any]:
        if self._path is None:
            return {}
        try:
            text = self._path.read_text(encoding="utf-8")
            document = tomllib.loads(text)
        except OSError as error:
            raise ConfigError([Problem(str(self._path), "", f"cannot be read: {error.strerror}")]) from None
        except UnicodeDecodeError:
            raise ConfigError([Problem(str(self._path), "", "is not UTF-8 text")]) from None
        except tomllib.TOMLDecodeError as error:
            place = _TOML_PLACE.search(str(error))
            line = place[1] if place and place[1] else str(text.count("\n") + 1)
            message = f"not valid TOML: {_TOML_PLACE.sub('', str(error))}"
            raise ConfigError([Problem(f"{self._path}:{line}", "", message)]) from None
        self._lines = key_lines(text)
        return document

    def _expanded(self, value: Any, key: Key) -> Any:
        """The value with `${VARIABLE}` replaced in every text; a token's reference stays for `_digest_tokens`."""
        if isinstance(value, dict):
            return {name: self._expanded(inner, (*key, name)) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._expanded(inner, (*key, index)) for index, inner in enumerate(value)]
        if not isinstance(value, str) or (key[0] == "tokens" and key[-1] == "token"):
            return value

        def replaced(match: re.Match[str]) -> str:
            name, default = match[1], match[2]
            if name is None:
                return "$"
            if name not in self._environ and default is None:
                self._report(key, f"the environment variable {name} is not set; set it, or write ${{{name}:default}}")
            return self._environ.get(name, default or "")

        return _VARIABLE.sub(replaced, value)

    def _digest_tokens(self, document: dict[str, Any]) -> None:
        """Puts the digest in the place of each token that is given as a reference, so that no secret goes further."""
        tokens = document.get("tokens")
        for index, table in enumerate(tokens if isinstance(tokens, list) else ()):
            if not isinstance(table, dict) or "token" not in table:
                continue
            key = ("tokens", index, "token")
            reference = _TOKEN_REFERENCE.fullmatch(str(table.pop("token")))
            secret = self._environ.get(reference[1], "") if reference else ""
            table.setdefault("sha256", [token_digest(secret)])
            if reference is None:
                self._report(key, 'write token = "${VARIABLE}", or sha256 = "..." in its place: no secret in a file')
            elif not secret:
                self._report(key, f"the environment variable {reference[1]} is not set")

    def _report(self, key: Key, message: str) -> None:
        """Notes a problem; the first of a key is its cause, what follows from it is left out."""
        flag = self._flags.get(tuple(str(part) for part in key))
        if flag is not None:
            problem = Problem(flag.option, "", message)
        elif self._path is not None:
            problem = Problem(f"{self._path}:{self._line(key)}", _dotted(key), message)
        else:
            problem = Problem("configuration", _dotted(key), message)
        self._problems.setdefault(key, problem)

    def _line(self, key: Key) -> int:
        """The line of a key, or of the innermost table around it."""
        return next((self._lines[key[:length]] for length in range(len(key), 0, -1) if key[:length] in self._lines), 1)


def _dotted(key: Key) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key).lstrip(".")


def _message(key: Key, kind: str, text: str, given: object) -> str:
    """What to tell about one of pydantic's findings."""
    message = _WORDING.get(kind, text.replace("Input should be", "must be"))
    suggestion = None
    if kind == "extra_forbidden":
        suggestion = _nearest_key(key)
    elif kind == "literal_error":
        suggestion = next(iter(difflib.get_close_matches(str(given), re.findall(r"'([^']+)'", text), 1)), None)
    return f"{message}; did you mean {suggestion}?" if suggestion else message


def _nearest_key(key: Key) -> str | None:
    """The known key that an unknown one was probably meant to be: in its own table first, then in any."""
    names = tuple(str(part) for part in key if isinstance(part, str))
    table, name = names[:-1], names[-1]
    near = difflib.get_close_matches(name, _known_keys(table), 1)
    if near:
        return near[0]
    for other in _TABLES:
        if name in _known_keys(other):
            return ".".join((*other, name))
    return None


def _known_keys(table: tuple[str, ...]) -> list[str]:
    return list(_walk_keys(table))


def _walk_keys(table: tuple[str, ...]) -> Iterator[str]:
    if table in _TABLES:
        yield from _TABLES[table].model_fields
    if table == ("tokens",):
        yield "token"


def redacted_toml(config: Config) -> str:
    """The configuration as TOML, without the tokens' digests."""
    plain = config.model_dump(mode="json", exclude_none=True)
    for token in plain["tokens"]:
        token["sha256"] = "(hidden)"
    lines: list[str] = []
    _write_table(lines, "", plain)
    return "\n".join(lines).strip() + "\n"


def _write_table(lines: list[str], header: str, table: Mapping[str, Any]) -> None:
    nested = {key: value for key, value in table.items() if isinstance(value, dict) or (value and _is_tables(value))}
    if header:
        lines.extend(("", header))
    lines.extend(f"{key} = {_toml_value(value)}" for key, value in table.items() if key not in nested)
    for key, value in nested.items():
        for inner in value if isinstance(value, list) else [value]:
            _write_table(lines, f"[[{key}]]" if isinstance(value, list) else f"[{key}]", inner)


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(inner, dict) for inner in value)


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(inner) for inner in value) + "]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value)
