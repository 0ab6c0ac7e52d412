"""What a process takes of its machine: descriptors, one for each file and connection, freed memory, and temporary files."""

import ctypes
import errno
import os
import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REMEDY = "raise the limit (ulimit -n, or LimitNOFILE of its unit)"
_FOLDERS = (Path("/proc/self/fd"), Path("/dev/fd"))
_TOO_MANY = os.strerror(errno.EMFILE)
_OF_THIS_PROCESS = "descriptors of this process"


def raise_limit(count: int) -> int:
    """Asks the system for that many descriptors, as far as it permits; returns how many the process may have, up to `count`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = count if hard == resource.RLIM_INFINITY else min(hard, count)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return count if soft == resource.RLIM_INFINITY else min(soft, count)


def limit() -> int | None:
    """Returns how many descriptors the process may have; None for any number."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def in_use() -> int:
    """Returns how many descriptors the process has; 0 where the system does not tell."""
    folder = next((folder for folder in _FOLDERS if folder.is_dir()), None)
    try:
        return 0 if folder is None else len(os.listdir(folder))
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        # Even to look takes one.
        return limit() or 0


def lack(error: str) -> str:
    """Returns words for the end of an error of a process that may have no further descriptor; empty for other errors."""
    if _TOO_MANY not in error or _OF_THIS_PROCESS in error:
        return ""
    return f"; {in_use()} of {limit()} {_OF_THIS_PROCESS} are in use: {REMEDY}"


KEPT_BYTES = 16 * 2**20
"""How much each heap of the process keeps."""
LARGE_BYTES = 8 * 2**20
"""The system provides anything larger on its own, and gets it back at once."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""The numbers of these options in glibc."""
_BY_USERS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> bool:
    """Lets glibc keep freed memory: by default it returns the buffers of each frame, and the system clears each page anew.

    A process that moves frames spends up to half of its time on that. Threads that start later, and forks, are included.

    Returns:
        Whether it has an effect; not with another C library, or if the environment has such limits.
    """
    if any(name in os.environ for name in _BY_USERS):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES)) and bool(mallopt(_MMAP_THRESHOLD, LARGE_BYTES))


@contextmanager
def named_folder() -> Iterator[None]:
    """Names the folder of temporary files in errors of files without a name: "No space left on device" alone names no disk.

    Raises:
        OSError: The block's own error.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = tempfile.gettempdir()
        raise
