"""A layer of operations on files, each of which fails once."""

import builtins
import contextlib
import fcntl
import io
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.log_writer.disk import THREAD

INJECTED = "an injected fault"
OPERATIONS = (
    "open",
    "stat",
    "unlink",
    "truncate",
    "replace",
    "mkdir",
    "statvfs",
    "chmod",
    "rename",
    "listdir",
    "scandir",
    "pwrite",
    "lstat",
    "fstat",
    "write",
    "fsync",
    "fdatasync",
    "ftruncate",
    "rmdir",
    "link",
    "symlink",
    "readlink",
    "utime",
    "close",
)
SHORT_WRITE = 0
"""Stands for an error where a write only writes a part of what it is given."""


class Files:
    """The operations on files below a folder, each of which fails once: the first time that a line of Headrace makes it.

    Operations of the thread that makes this count, and of the threads that write logs. A file whose `close` fails is closed, as
    Linux does it.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, error: int) -> None:
        self._folder, self._error = str(folder), error
        self._thread = threading.get_ident()
        self.fails = False
        self.left: int | None = None
        """How many more fail; None for all."""
        self.failed: dict[str, str] = {}
        """The function that has made each operation that has failed, by the place of the operation."""
        self._readlink = os.readlink
        for name in OPERATIONS:
            self._replace(monkeypatch, os, name)
        for module, name in ((io, "open"), (builtins, "open"), (fcntl, "flock")):
            self._replace(monkeypatch, module, name)

    def _replace(self, monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
        real = getattr(module, name)

        def operation(*arguments: Any, **named: Any) -> Any:
            if self.fails and self._concerns(arguments) and self._is_ours():
                place, function = _caller(name)
                is_meant = self._error != SHORT_WRITE or (name == "write" and len(arguments[1]) > 1)
                if is_meant and place not in self.failed and self.left != 0:
                    self.left = None if self.left is None else self.left - 1
                    self.failed[place] = function
                    if self._error == SHORT_WRITE:
                        return real(arguments[0], arguments[1][: len(arguments[1]) // 2])
                    if name == "close":
                        real(*arguments)
                    raise OSError(self._error, f"{INJECTED} in {place}")
            return real(*arguments, **named)

        monkeypatch.setattr(module, name, operation)

    def _is_ours(self) -> bool:
        return threading.get_ident() == self._thread or threading.current_thread().name == THREAD

    def _concerns(self, arguments: tuple[Any, ...]) -> bool:
        first = arguments[0] if arguments else None
        if type(first) is int:
            with contextlib.suppress(OSError):
                first = self._readlink(f"/proc/self/fd/{first}")
        return isinstance(first, str | os.PathLike) and self._folder in os.fspath(first)


def _caller(operation: str) -> tuple[str, str]:
    """The place in Headrace that makes an operation, and its function."""
    frame = sys._getframe(2)
    while "headrace" not in frame.f_code.co_filename and frame.f_back is not None:
        frame = frame.f_back
    code = frame.f_code
    return f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_name} {operation}", code.co_name
