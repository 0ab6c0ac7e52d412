"""All files below a folder, to copy them, on a disk of this machine or on any other file system that Spark supports."""

import errno
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from headrace.engine.checkpoint.folder import NOT_WHOLE, Folder, HadoopFolder, LocalFolder, kind_of, qualified
from headrace.engine.checkpoint.local_disk import sync_folder
from headrace.engine.checkpoint.state_files import LocalFiles, is_local, local_path

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Digest:
    """What tells whether a file is as it was.

    Attributes:
        bytes: Its size.
        sha256: The SHA-256 of its content, in hexadecimal digits.
    """

    bytes: int
    sha256: str


class Tree(Protocol):
    """The files below a root. Names are relative to it and may contain `/`. Names that begin with a dot do not count.

    A file that does not exist, or that is not whole, raises FileNotFoundError.
    """

    @property
    def url(self) -> str:
        """Where the root is."""
        ...

    def exists(self) -> bool:
        """Whether the root exists."""
        ...

    def folder(self, name: str) -> Folder:
        """The small files in a folder."""
        ...

    def below(self, name: str) -> list[str]:
        """The names of all files below a folder; none if it does not exist."""
        ...

    def part(self, name: str, offset: int, length: int) -> bytes:
        """Some bytes of a file.

        Raises:
            CheckpointError: The file has fewer bytes.
        """
        ...

    def digest(self, name: str) -> Digest:
        """Reads a whole file."""
        ...

    def take(self, name: str, source: Any, other: str) -> Digest:
        """Copies the file `other` of another tree of the same kind, in place of what is there; returns its digest."""
        ...

    def delete(self, name: str) -> None:
        """Deletes a file if it exists."""
        ...

    def settle(self) -> None:
        """Has everything that was copied survive a power loss, where the file system does not see to it by itself."""
        ...


class LocalTree:
    """The files below a folder on a disk of this machine. Files that it copies survive a power loss."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def url(self) -> str:
        """See `Tree`."""
        return f"file:{self._root.absolute()}"

    def exists(self) -> bool:
        """See `Tree`."""
        return self._root.exists()

    def folder(self, name: str) -> Folder:
        """See `Tree`."""
        return LocalFolder(self._root / name, sync=True)

    def below(self, name: str) -> list[str]:
        """See `Tree`."""
        return sorted(str(path.relative_to(self._root)) for path in _files(self._root / name))

    def part(self, name: str, offset: int, length: int) -> bytes:
        """See `Tree`."""
        return LocalFiles(self._root).read(name, offset, length)

    def digest(self, name: str) -> Digest:
        """See `Tree`."""
        sha, size = hashlib.sha256(), 0
        with (self._root / name).open("rb", buffering=0) as file:
            while chunk := file.read(_CHUNK):
                sha.update(chunk)
                size += len(chunk)
        return Digest(size, sha.hexdigest())

    def take(self, name: str, source: "LocalTree", other: str) -> Digest:
        """See `Tree`."""
        path, sha, size = self._root / name, hashlib.sha256(), 0
        with (source._root / other).open("rb", buffering=0) as file:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as copy:
                while chunk := file.read(_CHUNK):
                    copy.write(chunk)
                    sha.update(chunk)
                    size += len(chunk)
                copy.flush()
                os.fsync(copy.fileno())
            # The timeline takes the times of entries in Spark's logs from their files.
            found = os.fstat(file.fileno())
            os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
        return Digest(size, sha.hexdigest())

    def delete(self, name: str) -> None:
        """See `Tree`."""
        (self._root / name).unlink(missing_ok=True)

    def settle(self) -> None:
        """See `Tree`."""
        for folder in (Path(path) for path, _, _ in os.walk(self._root)):
            sync_folder(folder)


class HadoopTree:
    """The files below a folder on one of Hadoop's file systems. They are read and written in the JVM."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark._jvm
        self._spark, self._jvm = spark, jvm
        self._url = qualified(spark, path)
        self._files = self._at("").getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    @property
    def url(self) -> str:
        """See `Tree`."""
        return self._url

    def exists(self) -> bool:
        """See `Tree`."""
        return bool(self._files.exists(self._at("")))

    def folder(self, name: str) -> Folder:
        """See `Tree`."""
        return HadoopFolder(self._spark, f"{self._url}/{name}".rstrip("/"))

    def below(self, name: str) -> list[str]:
        """See `Tree`."""
        return sorted(self._below(name))

    def part(self, name: str, offset: int, length: int) -> bytes:
        """See `Tree`."""
        stream = self._opened(name)
        try:
            stream.seek(offset)
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream, length))
        except Py4JJavaError as error:
            raise OSError(errno.EIO, str(error.java_exception.getMessage()), f"{self._url}/{name}") from None
        finally:
            stream.close()

    def digest(self, name: str) -> Digest:
        """See `Tree`."""
        return self._copied(self._opened(name), self._jvm.java.io.OutputStream.nullOutputStream())

    def take(self, name: str, source: "HadoopTree", other: str) -> Digest:
        """See `Tree`."""
        stream = source._opened(other)
        try:
            target = self._files.create(self._at(name), True)
        except BaseException:
            stream.close()
            raise
        return self._copied(stream, target)

    def delete(self, name: str) -> None:
        """See `Tree`."""
        self._files.delete(self._at(name), False)

    def settle(self) -> None:
        """See `Tree`."""

    def _below(self, name: str) -> Iterator[str]:
        try:
            found = self._files.listStatus(self._at(name))
        except Py4JJavaError as error:
            if kind_of(error) in NOT_WHOLE:
                return
            raise
        for status in found:
            last = str(status.getPath().getName())
            if last.startswith("."):
                continue
            inner = f"{name}/{last}" if name else last
            if status.isDirectory():
                yield from self._below(inner)
            else:
                yield inner

    def _opened(self, name: str) -> Any:
        try:
            return self._files.open(self._at(name))
        except Py4JJavaError as error:
            raise self._absent(name, error) from None

    def _copied(self, stream: Any, target: Any) -> Digest:
        """Copies a stream, and closes both."""
        sha = self._jvm.java.security.MessageDigest.getInstance("SHA-256")
        reading = self._jvm.java.security.DigestInputStream(stream, sha)
        try:
            try:
                size = int(self._jvm.org.apache.commons.io.IOUtils.copyLarge(reading, target))
            except Py4JJavaError as error:
                raise OSError(errno.EIO, str(error.java_exception.getMessage()), self._url) from None
            finally:
                reading.close()
        finally:
            # The file is there, or an error is raised, only once this has returned.
            target.close()
        return Digest(size, bytes(sha.digest()).hex())

    def _absent(self, name: str, error: Py4JJavaError) -> Exception:
        return FileNotFoundError(f"{self._url}/{name}") if kind_of(error) in NOT_WHOLE else error

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._url}/{name}" if name else self._url)


def tree_at(path: str, spark: SparkSession | None) -> Tree:
    """The files below a folder, by the fastest way; a folder on a disk of this machine needs no session."""
    if spark is None:
        return LocalTree(Path(path.removeprefix("file://").removeprefix("file:")))
    url = qualified(spark, path)
    return LocalTree(local_path(url)) if is_local(url) else HadoopTree(spark, path)


def _files(folder: Path) -> Iterator[Path]:
    try:
        found = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in found:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _files(Path(entry.path))
        else:
            yield Path(entry.path)
