"""A disk that crashes at a step: the process is killed there, or the power fails and takes what is not durable with it."""

import os
from pathlib import Path

from headrace.connectors.file.disk import Disk


class Crashed(BaseException):
    """Nothing catches it, as nothing catches a crash."""


class CrashingDisk(Disk):
    """Counts steps, and crashes before one of them, or in the middle of it where it is a write, else after it."""

    def __init__(self, root: Path, at: int | None = None, *, halfway: bool = False) -> None:
        self.root = root
        self.steps = 0
        self._at = at
        self._halfway = halfway
        self._contents: dict[int, bytes] = {}
        self._names: dict[Path, dict[str, int]] = {}
        self._open: list[int] = []
        """Files that are kept open, so that no other file gets their number."""
        for folder in _folders(root):
            self._remember_names(folder)
            for path in _files(folder):
                self._contents[path.stat().st_ino] = path.read_bytes()
                self._open.append(os.open(path, os.O_RDONLY))

    def close(self) -> None:
        """Lets go of all files."""
        for descriptor in self._open:
            os.close(descriptor)
        self._open.clear()

    def lose_power(self) -> None:
        """Leaves only what was made durable."""
        for folder in _folders(self.root):
            for path in _files(folder):
                path.unlink()
            for name, inode in self._names.get(folder, {}).items():
                (folder / name).write_bytes(self._contents.get(inode, b""))

    def create(self, path):
        file = self._step(super().create, path)
        self._open.append(os.dup(file.fileno()))
        return file

    def modify(self, path):
        return super().modify(path)

    def write(self, file, data):
        half = data[: len(data) // 2]
        self._step(super().write, file, data, instead=lambda: super(CrashingDisk, self).write(file, half))

    def sync(self, file):
        self._step(self._sync, file)

    def rename(self, path, to):
        self._step(super().rename, path, to)

    def remove(self, path):
        self._step(super().remove, path)

    def sync_folder(self, folder):
        self._step(self._remember_names, folder)

    def _step(self, do, *arguments, instead=None):
        self.steps += 1
        if self.steps != self._at:
            return do(*arguments)
        if self._halfway:
            if instead is not None:
                instead()
            else:
                do(*arguments)
        raise Crashed

    def _sync(self, file) -> None:
        with open(f"/proc/self/fd/{file.fileno()}", "rb") as content:
            self._contents[os.fstat(file.fileno()).st_ino] = content.read()

    def _remember_names(self, folder: Path) -> None:
        self._names[folder] = {path.name: path.stat().st_ino for path in _files(folder)}


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file() and path.name != "lock"] if folder.exists() else []


def _folders(root: Path) -> list[Path]:
    return [root, *(path for path in root.rglob("*") if path.is_dir())]
