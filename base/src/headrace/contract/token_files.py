"""Files that contain a token: how they are read, and what is wrong with them.

A file may be replaced while a program runs, and is read again then. A file descriptor (`/dev/fd/N`) and a FIFO can be read once
only, so this process remembers what they contain.
"""

import errno
import logging
import os
import re
import select
import stat
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from headrace.contract import clock
from headrace.contract.certificates import Stamp, stamp_of
from headrace.contract.counts import counted
from headrace.contract.errors import HeadraceError

MAX_TOKEN_BYTES = 4096
"""The size of the largest token, in bytes: gRPC allows 8 KiB of metadata in all."""
PIPE_WITHIN_S = 30.0
"""How long to wait until whoever writes to a pipe has written the token and closed it."""
REPLACED_WITHIN_S = 30.0
"""How long calls are repeated that had a token which was replaced and then revoked."""

_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)|/dev/std(in)")
_TOKEN = re.compile(rb"[ -~]+")
_SPACE = b" \t\r\n"
_SOCKET = "it is a socket, and no file"
"""No SDK reads one: some languages have no means to open it by the number of a descriptor."""

log = logging.getLogger("headrace")

_lock = threading.Lock()
_read_once: dict[tuple[str, int, int], bytes] = {}
"""The contents of what can be read once only, by path, device and inode: the number of a descriptor may be used again."""
_warned: set[str] = set()


class TokenFileError(HeadraceError):
    """A file contains no token; the message names the file, what is wrong, and never its contents."""

    exit_code = 2


def descriptor_of(path: Path) -> int | None:
    """Returns N for `/dev/fd/N`; None for any other path."""
    found = _DESCRIPTOR.fullmatch(str(path))
    if found is None:
        return None
    return int(found[1]) if found[1] else 0


def read_token(path: Path) -> str:
    """Returns the token that a file contains, without the white space around it.

    Raises:
        TokenFileError: There is no such file, it cannot be read, or it does not contain exactly one token.
    """
    try:
        with _lock:
            content = _content(path)
    except OSError as error:
        raise TokenFileError(f"{path}: {_reason(error)}") from None
    token = content.strip(_SPACE)
    if len(content) > MAX_TOKEN_BYTES:
        raise TokenFileError(f"{path} is too large for a token: more than {MAX_TOKEN_BYTES:,} bytes")
    if not token:
        raise TokenFileError(f"{path} is empty: write the token into it, and nothing else")
    if not _TOKEN.fullmatch(token):
        lines = len(token.splitlines())
        what = counted(lines, "line") if lines > 1 else "bytes that no token contains"
        raise TokenFileError(f"{path} contains {what}: write one token into it, and nothing else")
    return token.decode("ascii")


def exposure(path: Path) -> str | None:
    """Returns why others can read the file, None if they cannot, or if there is no file."""
    try:
        found = path.stat() if descriptor_of(path) is None else None
    except OSError:
        return None
    if found is None or not stat.S_ISREG(found.st_mode) or not found.st_mode & stat.S_IROTH:
        return None
    return f"every user of this machine can read {path} (mode {stat.S_IMODE(found.st_mode):04o}): chmod o= {path}"


@dataclass(unsafe_hash=True)
class TokenFile:
    """A file with a token, which is read again when it has changed. Processes to which it is sent know the last token, too.

    Attributes:
        path: The file.
    """

    path: Path
    _token: str | None = field(default=None, repr=False, compare=False)
    _stamp: Stamp = field(default=None, repr=False, compare=False)
    """The file that the token is of."""
    _refused: Stamp = field(default=None, repr=False, compare=False)
    """The file that was found to contain none."""
    _is_replaced: bool = field(default=False, repr=False, compare=False)
    _denied_at: float | None = field(default=None, repr=False, compare=False)
    """When a gateway first refused a call since the token was replaced."""

    def token(self) -> str:
        """Returns the current token. While the file cannot be read, or contains none, that is the last one that was read.

        Raises:
            TokenFileError: No token was ever read.
        """
        stamp = stamp_of(self.path) if descriptor_of(self.path) is None else None
        if self._token is not None and (stamp is None or stamp in (self._stamp, self._refused)):
            return self._token
        try:
            token = read_token(self.path)
        except TokenFileError as error:
            if self._token is None:
                raise
            self._refused = stamp
            log.warning("%s; the token that it contained before stays in use", error)
            return self._token
        if self._token not in (None, token):
            self._is_replaced, self._denied_at = True, None
        self._token, self._stamp = token, stamp
        _warn_once(self.path)
        return token

    def outlives_refusal(self) -> bool:
        """Returns whether a call that a gateway refused for its token may have had an earlier one, so that it is to be repeated.

        That is so for `REPLACED_WITHIN_S` after the first refusal since the token was replaced.
        """
        self.token()
        if not self._is_replaced:
            return False
        now = clock.monotonic()
        self._denied_at = now if self._denied_at is None else self._denied_at
        return now - self._denied_at < REPLACED_WITHIN_S


def _warn_once(path: Path) -> None:
    why = exposure(path)
    if why is None:
        return
    with _lock:
        is_new = str(path) not in _warned
        _warned.add(str(path))
    if is_new:
        log.warning("%s", why)


def keep_descriptor(path: Path) -> int | None:
    """Lets processes that this one starts read a token at the same `/dev/fd/N`, even if it was in a pipe.

    Returns:
        N, to be passed on; None for any other path.

    Raises:
        TokenFileError: It contains no token.
    """
    descriptor = descriptor_of(path)
    if descriptor is None:
        return None
    token = read_token(path)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        # A file in memory at the same number can be read by each of them, and again at each start.
        held = os.memfd_create("headrace-token")
        os.write(held, token.encode())
        os.dup2(held, descriptor, inheritable=False)
        os.close(held)
    return descriptor


def _content(path: Path) -> bytes:
    """Returns up to one byte more than a token may have."""
    number = descriptor_of(path)
    if number is None and stat.S_ISSOCK(os.stat(path).st_mode):
        raise OSError(0, _SOCKET)
    # A FIFO that nobody writes to must not block the call.
    descriptor = os.dup(number) if number is not None else os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        mode = found.st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError
        if stat.S_ISREG(mode):
            return _of_file(descriptor)
        if stat.S_ISSOCK(mode):
            raise OSError(0, _SOCKET)
        if not stat.S_ISFIFO(mode):
            raise OSError(0, "it is a device, and no file")
        identity = str(path), found.st_dev, found.st_ino
        known = _read_once.get(identity)
        if known is None:
            known = _read_once[identity] = _of_pipe(descriptor)
        return known
    finally:
        os.close(descriptor)


def _of_file(descriptor: int) -> bytes:
    """Reads from the beginning, wherever others who share the descriptor have read to."""
    return os.pread(descriptor, MAX_TOKEN_BYTES + 1, 0)


def _of_pipe(descriptor: int) -> bytes:
    deadline = time.monotonic() + PIPE_WITHIN_S
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    content = b""
    while len(content) <= MAX_TOKEN_BYTES:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise TimeoutError
        part = os.read(descriptor, MAX_TOKEN_BYTES + 1 - len(content))
        if not part:
            break
        content += part
    return content


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, IsADirectoryError):
        return "it is a folder, and no file"
    if isinstance(error, TimeoutError):
        return f"nobody has written a token to it and closed it within {PIPE_WITHIN_S:.0f} s"
    if error.errno == errno.EBADF:
        return "this process has no such file descriptor"
    return error.strerror or str(error)
