"""Folders that belong to a process until it ends, so that others can remove the folders of processes that were killed."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

OWNER = "headrace-owner.lock"
"""The file in each folder that its owner has locked."""


class OwnedFolder:
    """A new folder, which only this user can read and this process owns until it releases it or ends.

    Attributes:
        path: The folder.
    """

    def __init__(self, parent: Path, prefix: str) -> None:
        """Creates it in a folder, with a name that begins with a prefix.

        Raises:
            OSError: It cannot be created there, or nothing can be locked there; the error names a path.
        """
        # Until it has its final name, no other process takes it for abandoned.
        unnamed = Path(tempfile.mkdtemp(prefix=f".{prefix}", dir=parent))
        try:
            self._lock = (unnamed / OWNER).open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            self.path = unnamed.rename(unnamed.with_name(unnamed.name.removeprefix(".")))
        except OSError as error:
            remove(unnamed)
            if error.filename is None:  # of a lock, or of a descriptor
                raise OSError(error.errno, error.strerror, str(parent)) from error
            raise

    def release(self) -> None:
        """Gives up the folder; call it once the folder is removed."""
        self._lock.close()


@contextmanager
def own_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Yields the path of an `OwnedFolder`, and removes it when the block ends. First removes the abandoned ones with its prefix.

    Raises:
        OSError: As `OwnedFolder`.
    """
    for folder in abandoned(parent, prefix):
        remove(folder)
    owned = OwnedFolder(parent, prefix)
    try:
        yield owned.path
    finally:
        remove(owned.path)
        owned.release()


def remove(folder: Path) -> None:
    """Removes a folder with all that is in it, as far as that is possible."""
    # Once more if an operation fails: without its owner's file, nobody finds the folder later.
    for _ in range(2):
        # Of some operations, `rmtree` raises the errors all the same.
        with suppress(OSError):
            shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            return


def abandoned(parent: Path, prefix: str = "[!.]") -> Iterator[Path]:
    """Yields the folders of this user whose owners have ended, each locked until the next one; none that it cannot look at.

    Args:
        parent: Where they are.
        prefix: How their names begin, as a shell pattern.
    """
    try:
        locks = list(parent.glob(f"{prefix}*/{OWNER}"))
    except OSError:
        # Whoever looks next removes them.
        return
    for lock in locks:
        # Owned, or removed meanwhile.
        with suppress(OSError), lock.open("r+") as held:
            if os.fstat(held.fileno()).st_uid == os.geteuid():
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield lock.parent
