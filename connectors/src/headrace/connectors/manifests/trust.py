"""Whether nobody but root and the user can change a file, as ssh demands of its configuration."""

import os
import pwd
import shlex
import stat
from pathlib import Path


def untrusted(path: Path, own: int) -> str | None:
    """Returns who else can change what a path leads to, and what to do about it; None if nobody else can.

    Links are followed. All folders above count, since whoever can rename things there can put something else in the place.

    Args:
        path: A file or folder.
        own: The number of folders above that must be writable by nobody else even if they are sticky. In a sticky folder
            such as /tmp, others can add things, but not replace the user's.
    """
    try:
        whole = path.resolve(strict=True)
        for height, part in enumerate((whole, *whole.parents)):
            if (reason := _reason(part, sticky=height > own)) is not None:
                return reason
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead in a circle.
        return f"{path} cannot be read: {getattr(error, 'strerror', None) or error}"
    return None


def _reason(path: Path, *, sticky: bool) -> str | None:
    """Returns who else can change a file or folder itself."""
    status = path.stat()
    if status.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to {_user(status.st_uid)}: chown {_user(os.geteuid())} {shlex.quote(str(path))}"
    shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not shared or (sticky and status.st_mode & stat.S_ISVTX):
        return None
    who = "everybody" if shared & stat.S_IWOTH else "its group"
    return f"{path} is writable by {who}: chmod go-w {shlex.quote(str(path))}"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
