"""Takes requests of commands on a Unix socket in the deployment's folder: one JSON line each, answered with one."""

import contextlib
import json
import os
import pwd
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from headrace.deploy.file_watch import FileFault
from headrace.deploy.patient_disk import PatientDisk
from headrace.deploy.process import SupervisedProcess
from headrace.log_writer import close

SOCKET_FILE = "supervisor.socket"
MAX_REQUEST_BYTES = 4096
MAX_REQUESTS = 16
"""How many callers are heard before others are answered; the others wait in the kernel's queue."""
SPEAK_WITHIN_S = 5.0
PROCESSES_IN_ANSWER = 40
"""How many processes an answer lists: it must fit into the buffer of a socket."""
MAX_FAULT = 300
LOOK_EVERY_S = 1.0
"""How often it is looked whether the socket is still there."""
_QUEUE = 64
_CREDENTIALS = struct.Struct("3i")


@dataclass(eq=False)
class Request:
    """A request, whose connection stays open until it is answered.

    Attributes:
        name: The process to restart.
        by: Who requests it, as the kernel says: `ann (uid 1000, pid 4711)`.
    """

    name: str
    by: str
    _connection: socket.socket = field(repr=False)

    @property
    def is_open(self) -> bool:
        """Whether it is not answered yet."""
        return self._connection.fileno() >= 0

    def is_checked(self, one: SupervisedProcess) -> bool:
        """Returns False: a command on this machine takes the supervisor's word."""
        return False

    def answer(self, document: Mapping[str, Any]) -> None:
        """Sends the answer. A caller who has left is none of the supervisor's concern."""
        _answer(self._connection, document)


@dataclass(frozen=True, slots=True)
class _Question:
    """A request for the processes from one of them on, which is answered at once."""

    first: int
    connection: socket.socket


@dataclass(eq=False)
class _Caller:
    """A connection whose request has not arrived completely."""

    connection: socket.socket
    since: float
    received: bytes = b""


class ControlSocket:
    """The socket of a running deployment. Only the supervisor's user and root may use it. No call of it blocks for long."""

    def __init__(self, folder: Path, tell: Callable[[str], None], disk: PatientDisk) -> None:
        """Listens in a folder; if the folder cannot contain a socket, it calls `tell`, and the deployment runs without."""
        self.processes: list[dict[str, Any]] = []
        """The processes of the deployment, as commands see them."""
        self.gateway_fault: str | None = None
        """Why the deployment is not registered at its gateway."""
        self.file_fault: FileFault | None = None
        """Why the deployment's file is invalid."""
        self._folder = folder
        self._path = folder / SOCKET_FILE
        self._tell = tell
        self._disk = disk
        self._next_listener: tuple[socket.socket, int] | None = None
        """A listener and its file, which are to be used from the next call on."""
        self._callers: list[_Caller] = []
        self._requests: list[Request] = []
        self._listener: socket.socket | None = None
        self._inode: int | None = None
        """The file of the listener: another supervisor may have one in its place, if the folder has been removed."""
        self._looked_at = time.monotonic()
        self._why_not: str | None = None
        self._look(replaces=True)

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the socket and all connections."""
        self._use_next()
        with contextlib.suppress(OSError):
            self._disk.ask(self._remove)
        if self._listener is not None:
            self._listener.close()
        for caller in self._callers:
            caller.connection.close()
        for request in self._requests:
            request.answer(refusal("the deployment has ended"))

    def requests(self) -> list[Request]:
        """Returns the requests that have arrived since the last call."""
        self._use_next()
        self._requests = [request for request in self._requests if request.is_open]
        while self._listener is not None and len(self._callers) + len(self._requests) < MAX_REQUESTS:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                break
            connection.setblocking(False)
            self._callers.append(_Caller(connection, time.monotonic()))
        arrived = [request for caller in self._callers if (request := _received(caller)) is not None]
        self._callers = [caller for caller in self._callers if caller.connection.fileno() >= 0 and not _is_complete(caller)]
        made = [request for request in arrived if isinstance(request, Request)]
        for request in arrived:
            if isinstance(request, _Question):
                listed = self.processes[request.first : request.first + PROCESSES_IN_ANSWER]
                fault = self.gateway_fault and self.gateway_fault[:MAX_FAULT]
                result = {"processes": listed, "processes_in_all": len(self.processes), "gateway_fault": fault}
                _answer(request.connection, {"ok": True, "result": result | _of_file(self.file_fault)})
        self._requests += made
        if time.monotonic() - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = time.monotonic()
            self._look(replaces=False)
        return made

    def _look(self, *, replaces: bool) -> None:
        """Listens, unless there is a socket already. Tells once why there can be none; the next call tries again.

        Args:
            replaces: Whether to replace a socket that is there already: the lock of the folder proves that nobody listens on it.
        """
        try:
            self._disk.ask(partial(self._listen, replaces=replaces))
        except OSError as error:
            if self._why_not != error.strerror:
                self._why_not = error.strerror
                said = f"there can be no socket in {self._folder}: {error.strerror}; this is tried again"
                self._tell(f"headrace ps and headrace restart do not reach this deployment: {said}")
        else:
            self._why_not = None
        self._use_next()

    def _listen(self, *, replaces: bool) -> None:
        if not replaces and os.path.lexists(self._path):
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with address_in(self._folder) as address:
                listener.bind(address)
            inode = self._path.lstat().st_ino
            os.chmod(self._path, 0o600)
            listener.listen(_QUEUE)
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
        self._next_listener = listener, inode

    def _use_next(self) -> None:
        """Takes over the listener that was made, perhaps long after it was asked for."""
        if self._next_listener is not None:
            if self._listener is not None:
                self._listener.close()
            (self._listener, self._inode), self._next_listener = self._next_listener, None

    def _remove(self) -> None:
        if self._path.lstat().st_ino == self._inode:
            self._path.unlink()


@contextlib.contextmanager
def address_in(folder: Path) -> Iterator[str]:
    """Yields the address of the socket in a folder. Addresses have at most 107 bytes, paths of folders may have more."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET_FILE}"
    finally:
        close(descriptor)


def refusal(error: str, *, invalid: bool = False, is_done: bool = False) -> dict[str, Any]:
    """Returns the answer to a request that fails.

    Args:
        error: Why.
        invalid: Whether the caller must write it differently.
        is_done: Whether the connector got the request to restart.
    """
    return {"ok": False, "invalid": invalid, "done": is_done, "error": error}


def _received(caller: _Caller) -> Request | _Question | None:
    """Reads what a caller has sent. Returns its request once that is complete; ends the connection of one that is wrong."""
    try:
        sent = caller.connection.recv(MAX_REQUEST_BYTES + 1 - len(caller.received))
    except BlockingIOError:
        if time.monotonic() - caller.since > SPEAK_WITHIN_S:
            _answer(caller.connection, refusal(f"no request has arrived within {SPEAK_WITHIN_S:.0f} s", invalid=True))
        return None
    except OSError:
        sent = b""
    caller.received += sent
    if len(caller.received) > MAX_REQUEST_BYTES:
        _answer(caller.connection, refusal(f"the request has more than {MAX_REQUEST_BYTES} bytes", invalid=True))
    elif not sent:
        caller.connection.close()
    elif _is_complete(caller):
        return _parsed(caller)
    return None


def _is_complete(caller: _Caller) -> bool:
    return caller.received.endswith(b"\n")


def _parsed(caller: _Caller) -> Request | _Question | None:
    """Returns the request of a caller who has sent a whole line, or answers why it is none."""
    _, uid, _ = _credentials(caller.connection)
    if uid not in (os.getuid(), 0):
        _answer(caller.connection, refusal("only the user who runs the deployment, and root, may control it"))
        return None
    try:
        document = json.loads(caller.received)
        command, name = document["command"], document["from" if document["command"] == "processes" else "name"]
    except (ValueError, KeyError, TypeError, RecursionError):
        command, name = None, None
    if command == "processes" and type(name) is int and name >= 0:
        return _Question(name, caller.connection)
    if command != "restart" or not isinstance(name, str):
        shape = '{"command": "restart", "name": "..."} or {"command": "processes", "from": 0}'
        _answer(caller.connection, refusal(f"the request must be a line like {shape}", invalid=True))
        return None
    return Request(name, _who(caller.connection), caller.connection)


def _of_file(fault: FileFault | None) -> dict[str, Any]:
    """Returns why the file is invalid, with the keys of the gateway's status."""
    if fault is None:
        return {"file_fault": None, "file_fault_age_ms": None}
    return {"file_fault": fault.cause, "file_fault_age_ms": round((time.monotonic() - fault.since) * 1000)}


def _credentials(connection: socket.socket) -> tuple[int, int, int]:
    """Returns process, user and group of the peer, as they were when it connected."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(found)
    return pid, uid, gid


def _who(connection: socket.socket) -> str:
    pid, uid, _ = _credentials(connection)
    try:
        name = f"{pwd.getpwuid(uid).pw_name} "
    except KeyError:
        name = ""
    return f"{name}(uid {uid}, pid {pid})"


def _answer(connection: socket.socket, document: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):
        # An answer is smaller than the socket's buffer, so that this does not wait for the caller.
        connection.sendall(json.dumps(document).encode() + b"\n")
    connection.close()
