"""Files of a checkpoint, on any file system that Spark knows."""

from typing import Any, Protocol

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

_ABSENT = "FileNotFoundException"
# The last is said by HDFS of a file whose writer was killed while it closed it.
_NOT_WHOLE = {_ABSENT, "ChecksumException", "CannotObtainBlockLengthException"}


class Folder(Protocol):
    """A folder of small files, whose names are never used twice."""

    def names(self) -> list[str]:
        """The files that there are."""
        ...

    def read(self, name: str) -> str:
        """What a file holds.

        Raises:
            FileNotFoundError: there is none, or it is not whole.
        """
        ...

    def write(self, name: str, text: str) -> None:
        """Makes a file, and the folder where it is missing."""
        ...

    def delete(self, name: str) -> None:
        """Deletes a file, if it is there."""
        ...


class HadoopFolder:
    """A folder on one of Hadoop's file systems."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._path = path
        self._folder = jvm.org.apache.hadoop.fs.Path(path)
        self._files = self._folder.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    def names(self) -> list[str]:
        """The files that there are."""
        try:
            found = self._files.listStatus(self._folder)
        except Py4JJavaError as error:
            if _kind(error) == _ABSENT:
                return []
            raise
        return [status.getPath().getName() for status in found]

    def read(self, name: str) -> str:
        """What a file holds.

        Raises:
            FileNotFoundError: there is none, or it is not whole.
        """
        try:
            stream = self._files.open(self._at(name))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()
        except Py4JJavaError as error:
            if _kind(error) in _NOT_WHOLE:
                raise FileNotFoundError(f"{self._path}/{name}") from None
            raise

    def write(self, name: str, text: str) -> None:
        """Makes a file, and the folder where it is missing."""
        file = self._files.create(self._at(name))
        try:
            file.write(bytearray(text.encode()))
        finally:
            file.close()

    def delete(self, name: str) -> None:
        """Deletes a file, if it is there."""
        self._files.delete(self._at(name), False)

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._path}/{name}")


def _kind(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getSimpleName())
