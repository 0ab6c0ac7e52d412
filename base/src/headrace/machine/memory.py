"""How much memory that a process has freed it keeps for what it allocates next."""

import ctypes
import os

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
