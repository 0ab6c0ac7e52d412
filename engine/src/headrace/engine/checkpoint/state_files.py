"""Files with the states of an application, in its checkpoint: written once, by the tasks of Spark, and never changed.

Python has no client for Hadoop's file systems. It accesses a local disk directly; any other file system through a service in the
JVM of the driver or the executor (`FileService.java`), at a Unix domain socket. A task finds the socket's path in a file in
Spark's folder of files, which is the same one in the JVM and in its Python workers.
"""

import errno
import os
import socket
import struct
import threading
import time
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Protocol

from pyspark import SparkFiles

from headrace.contract.backoff import Backoff
from headrace.engine._errors import CheckpointError
from headrace.engine.checkpoint.local_disk import send, write_new

MAX_BYTES = 1 << 30
"""The most bytes that one call reads or writes through the service."""
START_S = 30.0
"""How long a task waits for the service, in seconds: its JVM starts it at about the same time."""
_LOCAL = "file:"
_ANNOUNCEMENT = "headrace-files"
_REQUEST = struct.Struct(">BIQQ")  # operation, length of the URL, offset, length of the content
_SIZE = struct.Struct(">i")
_READ, _WRITE = 1, 2
_ABSENT, _EXISTS, _SHORT = -1, -2, -3


class StateFiles(Protocol):
    """Files below a root. Names are relative and may contain `/`; a name with `..` raises ValueError."""

    def read(self, name: str, offset: int, length: int) -> bytes:
        """The `length` bytes of a file from `offset` on.

        Raises:
            FileNotFoundError: The file does not exist.
            CheckpointError: The file has fewer bytes.
            OSError: The file system failed.
        """
        ...

    def write(self, name: str, parts: Iterable[bytes]) -> None:
        """Creates a file of these parts, and missing folders.

        Args:
            name: The name of the file.
            parts: Its content, which may be read more than once.

        A process that dies may leave an incomplete file, which only its length tells from a complete one.

        Raises:
            FileExistsError: The file exists.
            OSError: The file system failed. The file does not exist, or is incomplete.
        """
        ...


def state_files(root: str, service: str | None = None, *, sync: bool = False) -> StateFiles:
    """The files below a root.

    Args:
        root: The qualified path of a folder on any of Hadoop's file systems: `file:/folder`, `hdfs://host:port/folder`.
        service: The path of the service's socket; None inside a task, which finds it.
        sync: Whether files on a local disk survive a power loss once they are written.
    """
    if is_local(root):
        return LocalFiles(local_path(root), sync=sync)
    return ServedFiles(root, service)


def is_local(root: str) -> bool:
    """Whether a folder, by its qualified path, is on a local disk, or on a mount that every machine has at the same path."""
    return root.startswith(_LOCAL)


def local_path(root: str) -> Path:
    """The path of a folder on a local disk, by its qualified path, which Hadoop does not escape."""
    return Path("/", root.removeprefix(_LOCAL).lstrip("/"))


class LocalFiles:
    """Files on a local disk.

    Args:
        root: The folder.
        sync: Whether a file that was written survives a power loss. Like Spark's own, it otherwise survives only the death of
            processes.
    """

    def __init__(self, root: Path, *, sync: bool = False) -> None:
        self._root = root
        self._sync = sync

    def read(self, name: str, offset: int, length: int) -> bytes:
        """See `StateFiles`."""
        path = self._root / _checked(name)
        file = os.open(path, os.O_RDONLY)
        try:
            found = os.pread(file, length, offset)
            while len(found) < length:
                more = os.pread(file, length - len(found), offset + len(found))
                if not more:
                    raise _short(path, offset, length)
                found += more
            return found
        finally:
            os.close(file)

    def write(self, name: str, parts: Iterable[bytes]) -> None:
        """See `StateFiles`."""
        write_new(self._root / _checked(name), parts, sync=self._sync)


class ServedFiles:
    """Files on any of Hadoop's file systems, through the service in the JVM. Threads take turns.

    Args:
        root: The qualified path of a folder.
        service: The path of the service's socket; None inside a task, which finds it.
    """

    def __init__(self, root: str, service: str | None = None) -> None:
        self._root = root
        self._service = service

    def read(self, name: str, offset: int, length: int) -> bytes:
        """See `StateFiles`."""
        url = self._at(name)
        try:
            return _service(self._service).call(_READ, url, offset, length)
        except ConnectionError:
            return _service(self._service).call(_READ, url, offset, length)

    def write(self, name: str, parts: Iterable[bytes]) -> None:
        """See `StateFiles`."""
        url, length = self._at(name), sum(map(len, parts))
        try:
            _service(self._service).call(_WRITE, url, 0, length, parts)
        except ConnectionError:
            try:
                _service(self._service).call(_WRITE, url, 0, length, parts)
            except FileExistsError:
                # The first attempt may have ended before the connection did.
                if self.read(name, 0, length) != b"".join(parts):
                    raise

    def _at(self, name: str) -> str:
        return f"{self._root}/{_checked(name)}"


class _Service:
    """This process's connection to a service.

    Args:
        path: The path of the service's socket; None if it is to be found.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None

    def call(self, operation: int, url: str, offset: int, length: int, content: Iterable[bytes] = ()) -> bytes:
        """Calls the service, which answers with a file's bytes, if it is to read some.

        Raises:
            ConnectionError: The connection broke, so that it is unknown what the service did.
        """
        if length > MAX_BYTES:
            raise OSError(errno.EFBIG, f"{length} bytes are more than the {MAX_BYTES} that one call may read or write", url)
        name = url.encode()
        with self._lock:
            connection, self._connection = self._connection or _connected(self._path), None
            try:
                send(connection.sendmsg, chain([_REQUEST.pack(operation, len(name), offset, length), name], content))
                status, answer = _answer(connection, length if operation == _READ else 0)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        if status == _ABSENT:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url)
        if status == _EXISTS:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), url)
        if status == _SHORT:
            raise _short(url, offset, length)
        if status < 0:
            raise OSError(errno.EIO, answer.decode(errors="replace"), url)
        return answer


_services: dict[tuple[int, str | None], _Service] = {}
_services_lock = threading.Lock()


def _service(path: str | None) -> _Service:
    """This process's connection to a service: it does not survive a fork."""
    with _services_lock:
        return _services.setdefault((os.getpid(), path), _Service(path))


def _connected(path: str | None) -> socket.socket:
    """A new connection to the service, which is waited for where a JVM is about to start it."""
    deadline = time.monotonic() + (START_S if path is None else 0.0)
    backoff = Backoff(0.01, 0.5)
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(path or Path(SparkFiles.getRootDirectory(), _ANNOUNCEMENT).read_text())
            return connection
        except (FileNotFoundError, ConnectionRefusedError) as error:
            connection.close()
            if time.monotonic() >= deadline:
                raise TimeoutError(
                    f"the JVM of this process does not serve the files of the checkpoint: {error}; see the log of the executor"
                ) from None
        except BaseException:
            connection.close()
            raise
        time.sleep(backoff.next())


def _answer(connection: socket.socket, length: int) -> tuple[int, bytes]:
    """The status of an answer, 0 or negative, and the bytes of a file or the text of an error."""
    content = bytearray(length)
    left = memoryview(content)
    while (size := _SIZE.unpack(_received(connection, bytearray(_SIZE.size)))[0]) > 0:
        _receive(connection, left[:size])
        left = left[size:]
    if size < 0:
        (length,) = _SIZE.unpack(_received(connection, bytearray(_SIZE.size)))
        return size, bytes(_received(connection, bytearray(length)))
    return size, bytes(content)


def _received(connection: socket.socket, content: bytearray) -> bytearray:
    _receive(connection, memoryview(content))
    return content


def _receive(connection: socket.socket, left: memoryview) -> None:
    while left:
        count = connection.recv_into(left, 0, socket.MSG_WAITALL)
        if not count:
            raise ConnectionResetError("the service of the checkpoint's files has closed the connection")
        left = left[count:]


def _checked(name: str) -> str:
    if "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise ValueError(f"{name!r} is not the name of a file below the folder of states")
    return name


def _short(where: Path | str, offset: int, length: int) -> CheckpointError:
    return CheckpointError(f"{where} is incomplete: it has no {length} bytes from byte {offset} on")
