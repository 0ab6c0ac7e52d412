"""Files that are written as a whole: whoever reads one finds what was there before, or all that is new."""

import os
from contextlib import suppress
from pathlib import Path


def replace_text(path: Path, text: str, mode: int = 0o644) -> None:
    """Writes a text file in one step, durably.

    Args:
        path: The file.
        text: The new content.
        mode: The permissions of the new file, as far as the umask leaves them.

    Raises:
        OSError: It cannot be written; the old file stays as it was, and nothing else is left behind.
    """
    # Another process may write the same file.
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise
