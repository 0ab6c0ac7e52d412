"""Files of a checkpoint, on any file system that Spark supports."""

import os
from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from headrace.engine.checkpoint.local_disk import write_whole
from headrace.engine.checkpoint.state_files import is_local, local_path

_ABSENT = "FileNotFoundException"
_EXISTS = "FileAlreadyExistsException"
# HDFS raises the last one for a file whose writer was killed while closing it.
NOT_WHOLE = {_ABSENT, "ChecksumException", "CannotObtainBlockLengthException"}


class Folder(Protocol):
    """A folder of small files. A name is never reused."""

    def names(self) -> list[str]:
        """The names of all files."""
        ...

    def read(self, name: str) -> str:
        """The content of a file.

        Raises:
            FileNotFoundError: The file does not exist, or is incomplete.
        """
        ...

    def write(self, name: str, text: str) -> None:
        """Creates a file, complete or not at all, and the folder if it does not exist.

        A process that dies may leave a file with a name that begins with `.NAME.`.

        Raises:
            FileExistsError: The file exists.
        """
        ...

    def delete(self, name: str) -> None:
        """Deletes a file if it exists."""
        ...


class LocalFolder:
    """A folder on a disk of this machine.

    Args:
        path: The folder.
        sync: Whether a file that was written survives a power loss.
    """

    def __init__(self, path: Path, *, sync: bool = False) -> None:
        self._path = path
        self._sync = sync

    def names(self) -> list[str]:
        """The names of all files."""
        try:
            return os.listdir(self._path)
        except FileNotFoundError:
            return []

    def read(self, name: str) -> str:
        """The content of a file.

        Raises:
            FileNotFoundError: The file does not exist.
        """
        return (self._path / name).read_text()

    def write(self, name: str, text: str) -> None:
        """See `Folder`."""
        write_whole(self._path / name, text.encode(), sync=self._sync)

    def delete(self, name: str) -> None:
        """Deletes a file if it exists."""
        (self._path / name).unlink(missing_ok=True)


class HadoopFolder:
    """A folder on one of Hadoop's file systems."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._path = path
        self._folder = jvm.org.apache.hadoop.fs.Path(path)
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        self._files = self._folder.getFileSystem(configuration)
        self._manager = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.create(
            self._folder, configuration
        )

    def names(self) -> list[str]:
        """The names of all files."""
        return list(self.modified())

    def modified(self) -> dict[str, int]:
        """When each file was last written, in milliseconds since 1970."""
        try:
            found = self._files.listStatus(self._folder)
        except Py4JJavaError as error:
            if kind_of(error) == _ABSENT:
                return {}
            raise
        return {status.getPath().getName(): int(status.getModificationTime()) for status in found}

    def read(self, name: str) -> str:
        """The content of a file.

        Raises:
            FileNotFoundError: The file does not exist, or is incomplete.
        """
        try:
            stream = self._files.open(self._at(name))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()
        except Py4JJavaError as error:
            if kind_of(error) in NOT_WHOLE:
                raise FileNotFoundError(f"{self._path}/{name}") from None
            raise

    def write(self, name: str, text: str) -> None:
        """See `Folder`."""
        self._manager.mkdirs(self._folder)
        try:
            create_whole(self._manager, self._at(name), text)
        except Py4JJavaError as error:
            if kind_of(error) == _EXISTS:
                raise FileExistsError(f"{self._path}/{name}") from None
            raise

    def delete(self, name: str) -> None:
        """Deletes a file if it exists."""
        self._files.delete(self._at(name), False)

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._path}/{name}")


def qualified(spark: SparkSession, path: str) -> str:
    """The URL of a folder, with the scheme of its file system."""
    jvm: Any = spark._jvm
    folder = jvm.org.apache.hadoop.fs.Path(path)
    files = folder.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    return str(files.makeQualified(folder).toString())


def open_folder(spark: SparkSession, url: str, *, sync: bool = False) -> Folder:
    """A folder at a URL from `qualified`, by the fastest way; with `sync`, files on a local disk survive a power loss."""
    return LocalFolder(local_path(url), sync=sync) if is_local(url) else HadoopFolder(spark, url)


def create_whole(manager: Any, path: Any, text: str) -> None:
    """Creates a file by Spark's manager of checkpoint files, whole or not at all."""
    file = manager.createAtomic(path, False)
    try:
        file.write(bytearray(text.encode()))
    except BaseException:
        file.cancel()
        raise
    file.close()


def kind_of(error: Py4JJavaError) -> str:
    """Returns the class of Java's exception, without its package."""
    return str(error.java_exception.getClass().getSimpleName())
