"""Temporary files, whose folder is the one that TMPDIR names."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


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
