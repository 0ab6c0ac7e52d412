"""Certificates, keys, and authorities to trust, in files that may be replaced while a server or a client runs."""

import ssl
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Stamp = tuple[int, int, int] | None


def stamp_of(path: Path) -> Stamp:
    """Returns a file's modification time, inode and size, which change when it is written or replaced; None without a file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """PEM files. With `client_ca`, clients must present a certificate that one of these authorities has signed."""

    cert: Path
    key: Path
    client_ca: Path | None = None

    @property
    def protocol(self) -> int:
        """The side of a connection that uses the files."""
        return ssl.PROTOCOL_TLS_SERVER

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yields the name of the attribute and the problem of each file that cannot be used."""
        for name, path in (("cert", self.cert), ("client_ca", self.client_ca)):
            problem = None if path is None else _problem_of_certificates(path)
            if problem is not None:
                yield name, problem
            elif name == "cert":
                yield from self._problem_of_key()

    def _problem_of_key(self) -> Iterator[tuple[str, str]]:
        """Yields what is wrong with the key, or with the pair, whose certificate can be read."""
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.cert, self.key, password=_no_password)
        except ValueError as error:
            yield "key", f"{self.key}: {error}"
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                yield "key", f"{self.key} is not the key of the certificate {self.cert}"
            elif (error.reason or "").startswith(_REFUSED):
                yield "cert", f"{self.cert} is refused: {str(error.reason).lower().replace('_', ' ')}"
            else:
                yield "key", f"{self.key} contains no PEM key"
        except OSError as error:
            yield "key", f"cannot be read: {error.strerror}"

    def load_into(self, context: ssl.SSLContext) -> None:
        """Loads the files into a new context.

        Raises:
            OSError: A file cannot be used; `problems` says which and why.
            ValueError: The key is encrypted.
        """
        context.load_cert_chain(self.cert, self.key, password=_no_password)
        if self.client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.client_ca)

    def stamps(self) -> list[Stamp]:
        """Returns what changes when a file is written or replaced."""
        return [stamp_of(path) for path in (self.cert, self.key, self.client_ca) if path is not None]


@dataclass(frozen=True, slots=True)
class ClientFiles:
    """PEM files: the authorities that a client trusts (by default, the system's), and its own certificate."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    @property
    def protocol(self) -> int:
        """The side of a connection that uses the files."""
        return ssl.PROTOCOL_TLS_CLIENT

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yields the names of the attributes and the problem if files cannot be used."""
        try:
            self.load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        except (OSError, ValueError) as error:
            files = ", ".join(str(path) for path in (self.ca, self.cert, self.key) if path is not None)
            yield "ca, cert, key", f"{files}: {error.strerror if isinstance(error, OSError) and error.strerror else error}"

    def load_into(self, context: ssl.SSLContext) -> None:
        """Loads the files into a new context.

        Raises:
            OSError: A file cannot be used.
            ValueError: The key is encrypted.
        """
        if self.ca is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(self.ca)
        if self.cert is not None:
            context.load_cert_chain(self.cert, self.key, password=_no_password)

    def stamps(self) -> list[Stamp]:
        """Returns what changes when a file is written or replaced."""
        return [stamp_of(path) for path in (self.ca, self.cert, self.key) if path is not None]


_REFUSED = ("EE_", "CA_")
"""How reasons begin for which OpenSSL refuses a certificate that it can read, such as a key that is too small."""


def _problem_of_certificates(path: Path) -> str | None:
    """Returns what is wrong with a file of certificates; None if nothing is."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError:
        return f"{path} contains no PEM certificate"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return None


def _no_password() -> str:
    raise ValueError("the key is encrypted; give one without a passphrase, in a file that only this program can read")


class ReloadingContext(ssl.SSLContext):
    """The context of a server or a client, of which each new connection uses the current contents of the files.

    A context cannot forget what it trusts, so each change makes a new one, for the connections from then on. Files that cannot
    be used change nothing: they are usually replaced one by one, and read again with the next connection.
    """

    _files: ServerFiles | ClientFiles
    _changed: Callable[[Sequence[str]], None]
    _current: ssl.SSLContext
    _in_force: list[Stamp]
    """The files in force."""
    _announced: list[Stamp]
    """The files that `changed` was last called about."""

    def __new__(cls, files: ServerFiles | ClientFiles, changed: Callable[[Sequence[str]], None]) -> "ReloadingContext":
        """Reads the files.

        Args:
            files: The files.
            changed: Called after each change of the files with their problems, none if they are in force.

        Raises:
            OSError: A file cannot be used.
            ValueError: The key is encrypted.
        """
        self = super().__new__(cls, files.protocol)
        self._files, self._changed = files, changed
        self._in_force = self._announced = files.stamps()
        files.load_into(self)
        self._current = _loaded(files)
        _contexts.add(self)
        return self

    def __init__(self, files: ServerFiles | ClientFiles, changed: Callable[[Sequence[str]], None]) -> None:
        """See `__new__`."""

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """Begins a connection."""
        stamps = self._files.stamps()
        if stamps != self._in_force:
            self._read(stamps)
        return self._current.wrap_bio(*arguments, **options)

    def read_again(self) -> None:
        """Reads the files, whether they seem to have changed or not."""
        self._announced = []
        self._read(self._files.stamps())

    def _read(self, stamps: list[Stamp]) -> None:
        problems = [text for _, text in self._files.problems()]
        try:
            fresh = None if problems else _loaded(self._files)
        except (OSError, ValueError) as error:
            # They change at this moment.
            fresh, problems = None, [str(error)]
        if fresh is not None:
            self._in_force, self._current = stamps, fresh
        if stamps != self._announced:
            self._announced = stamps
            self._changed(problems)


def _loaded(files: ServerFiles | ClientFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(files.protocol)
    files.load_into(context)
    return context


_contexts: "weakref.WeakSet[ReloadingContext]" = weakref.WeakSet()
"""Those of all servers and clients of this process."""


def read_again() -> None:
    """Reads the files of all servers and clients of this process again, as a process does on SIGHUP."""
    for context in list(_contexts):
        context.read_again()
