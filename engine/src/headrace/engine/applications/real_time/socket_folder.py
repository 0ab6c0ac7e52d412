"""A folder for a socket, with a path that is short enough, which the next driver removes if this one is killed."""

import shutil
from pathlib import Path

from headrace.machine.owned_folder import OwnedFolder, abandoned

PARENT = Path("/tmp")
"""The path of a socket has at most 107 bytes, and the folder for temporary files may have a long one."""
PREFIX = "headrace-real-time-"


class SocketFolder:
    """A folder that only this user can read.

    Attributes:
        path: The folder.
    """

    def __init__(self) -> None:
        """Creates it, and removes the folders of drivers that were killed."""
        for folder in abandoned(PARENT, PREFIX):
            shutil.rmtree(folder, ignore_errors=True)
        self._owned = OwnedFolder(PARENT, PREFIX)
        self.path = self._owned.path

    def remove(self) -> None:
        """Removes it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._owned.release()
