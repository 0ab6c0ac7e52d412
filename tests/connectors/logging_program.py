"""A program that writes a log and rotates it by one of the usual schemes, and what was done to its files afterwards."""

import bz2
import datetime
import gzip
import lzma
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}
SCHEMES = ("numbers", "stem numbers", "dates", "stem dates", "counting up", "copy and truncate", "hole", "packed at once")


class Program:
    """Writes lines to a log; knows all of them."""

    def __init__(self, log: Path, scheme: str) -> None:
        self.log, self.scheme = log, scheme
        self.lines: list[bytes] = []
        self._rest = b""
        self._rotations = 0
        self._file = log.open("wb" if scheme == "hole" else "ab", buffering=0)

    def write(self, count: int, end: bytes = b"") -> None:
        """Writes lines, and the beginning of another one."""
        for _ in range(count):
            line = self._rest + b"%s %d %s" % (self.log.name.encode(), len(self.lines), b"x" * (len(self.lines) % 90))
            self._file.write(line[len(self._rest) :] + b"\n")
            self.lines.append(line)
            self._rest = b""
        self._file.write(end)
        self._rest += end

    def rotated(self) -> list[Path]:
        """The rotated files, the newest first."""
        return sorted((path for path in self.log.parent.iterdir() if self._age(path)), key=self._age)

    def rotate(self, between: Callable[[], object] = lambda: None) -> None:
        """Begins another file; does something else before, when the old one was renamed."""
        self._rotations += 1
        if self._rest:
            # The last line of a file that is over has no line feed.
            self.lines.append(self._rest)
            self._rest = b""
        if self._counts_down:
            for path in reversed(self.rotated()):
                path.rename(self._named(self._age(path) + 1, path.name))
        new = self._named(1 if self._counts_down else self._rotations)
        if self.scheme in ("copy and truncate", "hole"):
            shutil.copyfile(self.log, new)
            os.truncate(self.log, 0)
            return
        self.log.rename(new)
        if self.scheme == "packed at once":
            self.pack(new, ".gz")
        between()
        self._file.close()
        self._file = self.log.open("ab", buffering=0)

    @staticmethod
    def pack(path: Path, suffix: str) -> None:
        """Compresses a file, and removes it."""
        path.with_name(path.name + suffix).write_bytes(PACK[suffix](path.read_bytes()))
        path.unlink()

    def close(self) -> None:
        self._file.close()

    @property
    def _counts_down(self) -> bool:
        return self.scheme in ("numbers", "stem numbers", "copy and truncate", "hole", "packed at once")

    def _named(self, number: int, name: str = "") -> Path:
        """The path of a rotated file; as compressed as it was."""
        date = (datetime.date(2026, 1, 1) + datetime.timedelta(number)).isoformat()
        stem, extension = self.log.stem, self.log.suffix
        named = {
            "stem numbers": f"{stem}.{number}{extension}",
            "dates": f"{stem}{extension}-{date.replace('-', '')}",
            "stem dates": f"{stem}-{date}{extension}",
            "counting up": f"{stem}-{number}{extension}",
        }.get(self.scheme, f"{stem}{extension}.{number}")
        return self.log.with_name(named + next((suffix for suffix in PACK if name.endswith(suffix)), ""))

    def _age(self, path: Path) -> int:
        """The number of a rotated file, 1 for the newest; 0 for another one."""
        for number in range(1, self._rotations + 1):
            if path == self._named(number, path.name):
                return number if self._counts_down else self._rotations + 1 - number
        return 0
