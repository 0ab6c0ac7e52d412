"""Writes files on a local disk, and forces them to it if that is wanted."""

import errno
import os
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

_MAX_PARTS = 1024  # IOV_MAX
_AHEAD_BYTES = 2**20


def write_new(path: Path, parts: Iterable[bytes], *, sync: bool) -> None:
    """Creates a file of these parts, and missing folders.

    A process that dies may leave an incomplete file.

    Args:
        path: The file.
        parts: Its content.
        sync: Whether it survives a power loss from now on.

    Raises:
        FileExistsError: The file exists.
        OSError: The disk failed. The file does not exist.
    """
    file = _created(path, sync=sync)
    try:
        try:
            send(partial(os.writev, file), parts)
            if sync:
                os.fsync(file)
        finally:
            os.close(file)
        if sync:
            sync_folder(path.parent)
    except BaseException:
        os.unlink(path)
        raise


def write_whole(path: Path, content: bytes, *, sync: bool) -> None:
    """Creates a file, complete or not at all, and missing folders.

    A process that dies may leave a file whose name begins with `.NAME.`.

    Raises:
        FileExistsError: The file exists.
        OSError: The disk failed. The file does not exist.
    """
    new = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    write_new(new, [content], sync=sync)
    try:
        _put(new, path)
        try:
            if sync:
                sync_folder(path.parent)
        except BaseException:
            os.unlink(path)
            raise
    finally:
        new.unlink(missing_ok=True)


def send(write: Callable[[Sequence[memoryview]], int], parts: Iterable[bytes]) -> None:
    """Writes parts with a call that may take only some of the bytes. Few parts are in memory at a time."""
    following = (memoryview(part) for part in parts if part)
    left = deque[memoryview]()
    while True:
        ahead = sum(map(len, left))
        while ahead < _AHEAD_BYTES and len(left) < _MAX_PARTS and (part := next(following, None)) is not None:
            left.append(part)
            ahead += len(part)
        if not left:
            return
        sent = write(list(left))
        while sent:
            part = left.popleft()
            if sent < len(part):
                left.appendleft(part[sent:])
            sent -= min(sent, len(part))


def _created(path: Path, *, sync: bool) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        make_folder(path.parent, sync=sync)
        return os.open(path, flags, 0o666)


def make_folder(folder: Path, *, sync: bool) -> None:
    """Creates a folder, and those above it that are missing.

    Args:
        folder: The folder.
        sync: Whether they survive a power loss.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    if sync:
        for each in missing:
            sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    """Has the names in a folder survive a power loss."""
    _sync(folder, os.O_DIRECTORY)


def sync_file(file: Path) -> None:
    """Has the content of a file that somebody else has written survive a power loss."""
    _sync(file, 0)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _put(file: Path, name: Path) -> None:
    """Gives a complete file its name, unless another file bears it.

    Raises:
        FileExistsError: One has.
    """
    try:
        os.link(file, name)
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        # Not every file system has links. Two drivers never write the same name at the same time, except while they convert a
        # checkpoint.
        if name.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(name)) from None
        os.rename(file, name)
