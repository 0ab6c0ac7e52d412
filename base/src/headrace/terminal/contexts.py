"""Contexts: named gateways with what it takes to call them, in a file of the user.

A context names files with secrets, and contains none itself.
"""

import contextlib
import fcntl
import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from headrace.contract.names import nearest
from headrace.contract.token_files import TokenFile, TokenFileError
from headrace.machine.replacement import replace_text
from headrace.terminal.output import EXIT_INVALID, Failure

VARIABLE = "HEADRACE_CONTEXT"
FILE_VARIABLE = "HEADRACE_CONTEXTS"
_FILES = ("token_file", "tls_ca", "tls_cert", "tls_key")


@dataclass(frozen=True)
class Context:
    """How to call one gateway.

    Attributes:
        gateway: Its address, HOST:PORT.
        token_file: A file that contains the token; None to call without.
        tls: Whether to use TLS; a certificate file implies it.
        tls_ca: PEM: the authority to trust; None for the authorities of this machine.
        tls_cert: PEM: the client certificate.
        tls_key: PEM: its key.
    """

    gateway: str
    token_file: Path | None = None
    tls: bool = False
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def opened_token_file(self) -> TokenFile | None:
        """Returns its token file, which was read; None if it has none.

        Raises:
            Failure: The file contains no token.
        """
        if self.token_file is None:
            return None
        file = TokenFile(self.token_file)
        try:
            file.token()
        except TokenFileError as error:
            raise Failure(f"the token of the context: {error}", EXIT_INVALID) from None
        return file


@dataclass(frozen=True)
class Contexts:
    """All contexts of a user.

    Attributes:
        by_name: The contexts.
        used: The name of the one that commands use; None for none.
    """

    by_name: Mapping[str, Context] = field(default_factory=dict)
    used: str | None = None

    def named(self, name: str) -> Context:
        """The context with a name.

        Raises:
            Failure: There is none.
        """
        if name not in self.by_name:
            known = ", ".join(sorted(self.by_name)) or "none; add one with headrace context add"
            raise Failure(f"there is no context {name}; there are: {known}{nearest(name, self.by_name)}", EXIT_INVALID)
        return self.by_name[name]


def contexts_file() -> Path:
    """Where the contexts of the user are: HEADRACE_CONTEXTS, else `headrace/contexts.toml` in the user's folder for settings."""
    if named := os.environ.get(FILE_VARIABLE):
        return Path(named)
    settings = os.environ.get("XDG_CONFIG_HOME")
    return Path(settings if settings and os.path.isabs(settings) else Path.home() / ".config") / "headrace" / "contexts.toml"


def load_contexts() -> Contexts:
    """Reads the contexts of the user; there are none without a file.

    Raises:
        Failure: The file cannot be read.
    """
    path = contexts_file()
    try:
        document = tomllib.loads(path.read_text())
        tables: dict[str, dict[str, Any]] = document.get("contexts", {})
        used = document.get("used")
        found = {name: _context(table) for name, table in tables.items()}
        if used is not None and used not in found:
            raise ValueError(f"used = {used!r}, and there is no such context")
        return Contexts(found, used)
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}", EXIT_INVALID) from None
    except (ValueError, TypeError, AttributeError) as error:
        raise Failure(f"{path} is not a file of contexts ({error}); correct it, or delete it", EXIT_INVALID) from None


@contextlib.contextmanager
def changing_contexts() -> "Iterator[Changing]":
    """Reads the contexts to change them; two commands do so one after the other.

    Raises:
        Failure: The file cannot be read or written.
    """
    path = contexts_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            changing = Changing(load_contexts())
            yield changing
            replace_text(path, _text(changing.contexts), 0o600)
        finally:
            os.close(lock)
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}") from None


class Changing:
    """The contexts while a command changes them."""

    def __init__(self, contexts: Contexts) -> None:
        self.contexts = contexts

    def put(self, name: str, context: Context) -> None:
        """Adds or replaces a context. The first one is used from then on."""
        used = self.contexts.used if self.contexts.by_name else name
        self.contexts = Contexts({**self.contexts.by_name, name: context}, used)

    def use(self, name: str | None) -> None:
        """Has commands use a context; None for none."""
        if name is not None:
            self.contexts.named(name)
        self.contexts = replace(self.contexts, used=name)

    def remove(self, name: str) -> None:
        """Removes a context."""
        self.contexts.named(name)
        left = {each: context for each, context in self.contexts.by_name.items() if each != name}
        self.contexts = Contexts(left, None if self.contexts.used == name else self.contexts.used)


def _context(table: dict[str, Any]) -> Context:
    known = {each.name for each in fields(Context)}
    if unknown := sorted(table.keys() - known):
        raise ValueError(f"unknown key {unknown[0]}")
    values: dict[str, Any] = {key: Path(value) if key in _FILES else value for key, value in table.items()}
    if not isinstance(values.get("gateway"), str) or not isinstance(values.get("tls", False), bool):
        raise ValueError("a context needs gateway, a text, and tls is true or false")
    return Context(**values)


def _text(contexts: Contexts) -> str:
    # A TOML string in double quotes is written like one in JSON.
    lines = [] if contexts.used is None else [f"used = {_quoted(contexts.used)}\n"]
    for name, context in sorted(contexts.by_name.items()):
        lines.append(f"\n[contexts.{_quoted(name)}]\n")
        for key, value in asdict(context).items():
            if value not in (None, False):
                lines.append(f"{key} = {'true' if value is True else _quoted(str(value))}\n")
    return "".join(lines)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
