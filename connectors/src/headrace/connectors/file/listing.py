"""Finds the files that patterns match, as `glob` does, and names what it has to leave out."""

import contextlib
import fnmatch
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from headrace.connectors.file.parts import Key, key_of

_WILD = re.compile(r"[*?\[]")
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

LeaveOut = Callable[[str, str], None]


class Found(NamedTuple):
    """A regular file. It is a tuple, which takes little memory: a folder may contain many.

    Attributes:
        path: Its path.
        key: Its device and inode.
        is_link: Whether the path is a symbolic link to it.
    """

    path: str
    key: Key
    is_link: bool


def matching(pattern: str, leave_out: LeaveOut) -> Iterator[Found]:
    """Yields the regular files that an absolute pattern matches: `*`, `?`, `[...]`, and `**` for any folders. None is opened.

    Args:
        pattern: The pattern.
        leave_out: Called with a path that cannot be read as a file, or a folder that cannot be listed, and the reason.
    """
    return _matching("/", [part for part in pattern.split("/") if part], leave_out, ())


def may_match(pattern: str, path: str) -> bool:
    """Returns whether an absolute pattern would match a file at a path."""
    return pattern == path or _fits(pattern.split("/"), path.split("/"))


def _fits(parts: Sequence[str], names: Sequence[str]) -> bool:
    if not parts or not names:
        return not parts and not names
    if parts[0] == "**":
        return any(_fits(parts[1:] or ["*"], names[at:]) for at in range(len(names)))
    shown = not names[0].startswith(".") or parts[0].startswith(".")
    return shown and fnmatch.fnmatchcase(names[0], parts[0]) and _fits(parts[1:], names[1:])


def _matching(folder: str, parts: list[str], leave_out: LeaveOut, above: tuple[Key, ...]) -> Iterator[Found]:
    part, rest = parts[0], parts[1:]
    path = os.path.join(folder, part)
    if part == "**":
        yield from _below(folder, rest or ["*"], leave_out, above)
    elif not _WILD.search(part):
        if rest:
            yield from _matching(path, rest, leave_out, above)
        elif (found := file_at(path, leave_out)) is not None:
            yield found
    else:
        matches = re.compile(fnmatch.translate(part)).match
        entries = _entries(folder, leave_out)
        matching = [entry for entry in entries if matches(entry.name) and (part[0] == "." or entry.name[0] != ".")]
        if not rest:
            yield from _files(matching, _device(folder), leave_out)
        for entry in matching if rest else ():
            if _is_folder(entry):
                yield from _matching(entry.path, rest, leave_out, above)


def _below(folder: str, rest: list[str], leave_out: LeaveOut, above: tuple[Key, ...]) -> Iterator[Found]:
    """Yields the matches in a folder and all folders in it, through links, but in no circle."""
    try:
        key = key_of(os.stat(folder))
    except OSError:
        return
    if key in above:
        return
    yield from _matching(folder, rest, leave_out, above)
    for entry in _entries(folder, leave_out):
        if not entry.name.startswith(".") and _is_folder(entry):
            yield from _below(entry.path, rest, leave_out, (*above, key))


def _entries(folder: str, leave_out: LeaveOut) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=attrgetter("name"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        leave_out(folder, f"this folder cannot be listed: {error.strerror}")
        return []


def _device(folder: str) -> int:
    try:
        return os.stat(folder).st_dev
    except OSError:
        return 0


def _is_folder(entry: os.DirEntry[str]) -> bool:
    with contextlib.suppress(OSError):
        return entry.is_dir()
    return False


def _files(entries: list[os.DirEntry[str]], device: int, leave_out: LeaveOut) -> list[Found]:
    """Returns the entries of a folder that are regular files: without another system call where they are no links."""
    found = []
    for entry in entries:
        try:
            is_plain = entry.is_file(follow_symlinks=False)
        except OSError:
            is_plain = False
        if is_plain:
            found.append(Found(entry.path, (device, entry.inode()), False))
        elif (file := file_at(entry.path, leave_out)) is not None:
            found.append(file)
    return found


def file_at(path: str, leave_out: LeaveOut) -> Found | None:
    """Returns the file at a path, if it is a regular one; a folder is left out without a word."""
    try:
        is_link = os.path.islink(path)
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        if os.path.islink(path):
            leave_out(path, "it is a link to nothing")
        return None
    except OSError as error:
        leave_out(path, f"it cannot be read: {error.strerror}")
        return None
    if stat.S_ISREG(found.st_mode):
        return Found(path, key_of(found), is_link=is_link)
    if not stat.S_ISDIR(found.st_mode):
        leave_out(path, f"it is {_KINDS.get(stat.S_IFMT(found.st_mode), 'no regular file')}")
    return None


def may_read(path: str) -> bool:
    """Returns whether this process may read a file."""
    return os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids)
