"""The descriptors that a process may have: one for each file and connection."""

import os
import resource
from pathlib import Path

_FOLDERS = (Path("/proc/self/fd"), Path("/dev/fd"))


def raise_limit(wanted: int) -> int:
    """Asks the system for that many descriptors, as far as it permits; returns how many the process may have, up to `wanted`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return wanted if soft == resource.RLIM_INFINITY else min(soft, wanted)


def in_use() -> int:
    """Returns how many descriptors the process has; 0 where the system does not tell."""
    folder = next((folder for folder in _FOLDERS if folder.is_dir()), None)
    return 0 if folder is None else len(os.listdir(folder))
