"""The disk operations of the file sink, as single steps, so that tests can crash it between any two of them."""

import contextlib
import os
from pathlib import Path
from typing import BinaryIO

UNFINISHED = ".tmp"
"""The end of the name of a file that is not complete."""


class Disk:
    """The steps. A crash may interrupt each one that is not atomic; a step is durable only if its description promises it."""

    def create(self, path: Path) -> BinaryIO:
        """Opens a new, empty file; truncates an existing one."""
        return open(path, "wb", buffering=0)

    def modify(self, path: Path) -> BinaryIO:
        """Opens an existing file for writing at a byte offset."""
        return open(path, "r+b", buffering=0)

    def write(self, file: BinaryIO, data: bytes) -> None:
        """Writes all of `data` at the current offset of the file."""
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]

    def sync(self, file: BinaryIO) -> None:
        """Makes the content of a file durable."""
        os.fsync(file.fileno())

    def rename(self, path: Path, to: Path) -> None:
        """Renames a file atomically; replaces an existing file of that name."""
        os.replace(path, to)

    def remove(self, path: Path) -> None:
        """Removes a file, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def sync_folder(self, folder: Path) -> None:
        """Makes the names in a folder durable."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def make_folder(self, folder: Path) -> None:
        """Creates a folder and its parents durably, unless it exists."""
        if not folder.exists():
            self.make_folder(folder.parent)
            folder.mkdir(exist_ok=True)
            self.sync_folder(folder.parent)

    def replace(self, path: Path, data: bytes) -> None:
        """Replaces the content of a file, atomically and durably; leaves nothing behind if that fails."""
        temporary = path.with_name(path.name + UNFINISHED)
        try:
            with self.create(temporary) as file:
                self.write(file, data)
                self.sync(file)
            self.rename(temporary, path)
        except OSError:
            # The same content may never be due again.
            with contextlib.suppress(OSError):
                self.remove(temporary)
            raise
        self.sync_folder(path.parent)
