"""Everything that the file sink does to a disk, step by step, so that tests can crash it between any two of them."""

import contextlib
import os
from pathlib import Path
from typing import BinaryIO


class Disk:
    """The steps. Each is atomic or may be cut short by a crash; none is durable unless it says so."""

    def create(self, path: Path) -> BinaryIO:
        """Opens a new, empty file; one that is there already is emptied."""
        return open(path, "wb", buffering=0)

    def modify(self, path: Path) -> BinaryIO:
        """Opens a file that exists, to be written at an offset."""
        return open(path, "r+b", buffering=0)

    def write(self, file: BinaryIO, data: bytes) -> None:
        """Writes all of `data` at the file's place."""
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]

    def sync(self, file: BinaryIO) -> None:
        """Makes the content of a file durable."""
        os.fsync(file.fileno())

    def rename(self, path: Path, to: Path) -> None:
        """Gives a file another name, atomically; replaces what has that name."""
        os.replace(path, to)

    def remove(self, path: Path) -> None:
        """Removes a file, if it is there."""
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
        """Makes a folder and those above it, durably, unless it exists."""
        if not folder.exists():
            self.make_folder(folder.parent)
            folder.mkdir(exist_ok=True)
            self.sync_folder(folder.parent)

    def replace(self, path: Path, data: bytes) -> None:
        """Gives a file a new content, atomically and durably."""
        temporary = path.with_name(path.name + ".tmp")
        with self.create(temporary) as file:
            self.write(file, data)
            self.sync(file)
        self.rename(temporary, path)
        self.sync_folder(path.parent)
