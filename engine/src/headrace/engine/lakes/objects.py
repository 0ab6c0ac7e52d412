"""The staged objects of a table on S3 or HDFS, in the store of the library that commits them, with the same credentials.

On S3, an object cannot be renamed: it is copied to its place, then the staged one is deleted, both before the log names it. So a
driver that does the same late, twice or beside another one finds the same object, or nothing left to move. HDFS renames.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.engine._errors import LakeError
from headrace.engine.checkpoint.lake_batches import LakeBatch, LakeFile
from headrace.engine.lakes.staging import STAGED, Found, Staging

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m|↳")
_DOCUMENT = re.compile(r"<\?xml|\n\s*at [\w.$]+\(")
"""Where the document of a server of S3, or the stack trace of a name node, begins."""
_ABSENT = "java.io.FileNotFoundException"
_REASON_CHARS = 400
_OF_PYICEBERG = {
    "s3.endpoint": "aws_endpoint_url",
    "s3.region": "aws_region",
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
}
"""The properties of pyiceberg as deltalake names them."""


class ObjectStaging(Staging):
    """The staged objects of one table.

    Args:
        place: The place of the table.
        objects: The objects below it, as a file system of Arrow.
        below: The folder of the objects in it that readers find; empty for the place itself.
    """

    def __init__(self, place: str, objects: Any, *, below: str = "") -> None:
        super().__init__(place)
        self._objects = objects
        self._below = f"{below}/" if below else ""

    def create(self, name: str) -> pa.NativeFile:
        """See `Staging`."""
        with readable():
            created: pa.NativeFile = self._objects.open_output_stream(f"{STAGED}/{name}")
            return created

    def written(self, name: str, rows: int) -> LakeFile:
        """See `Staging`."""
        found = self._look_up(f"{STAGED}/{name}")
        if found is None:
            raise OSError(f"{self._place}/{STAGED}/{name} is gone although it was written")
        return LakeFile(name, found.bytes, rows)

    def discard(self, name: str) -> None:
        """See `Staging`."""
        with suppress(FileNotFoundError), readable():
            self._objects.delete_file(f"{STAGED}/{name}")

    def add(self, name: str) -> Found | None:
        """See `Staging`."""
        with suppress(FileNotFoundError), readable():  # It was moved before.
            self._objects.move(f"{STAGED}/{name}", self._below + name)
        return self._look_up(self._below + name)

    def footer_of(self, name: str) -> "FileMetaData | None":
        """See `Staging`."""
        import pyarrow.parquet as pq

        for path in f"{STAGED}/{name}", self._below + name:
            with suppress(FileNotFoundError, pa.ArrowInvalid), readable(), self._objects.open_input_file(path) as file:
                return pq.read_metadata(file)
        return None

    def make_table(self) -> list[str]:
        """See `Staging`. A table in a store needs no folder, and no other format has files there."""
        return []

    def check_table(self, batch: LakeBatch) -> None:
        """See `Staging`. A store of objects has no folders."""

    def keep_log(self, version: int) -> None:
        """See `Staging`. A store of objects has answered once they survive."""

    def _look_up(self, path: str) -> Found | None:
        with readable():
            (info,) = self._objects.get_file_info([path])
        return Found(info.size, int((info.mtime_ns or 0) / 1_000_000)) if info.is_file else None

    def _names(self) -> list[str]:
        from pyarrow.fs import FileSelector

        with readable():
            return [info.base_name for info in self._objects.get_file_info(FileSelector(STAGED, allow_not_found=True))]

    def _is_staged(self, name: str) -> bool:
        return self._look_up(f"{STAGED}/{name}") is not None


@contextmanager
def readable() -> Iterator[None]:
    """Has an error of the store be one line, without the colours of a terminal.

    Raises:
        FileNotFoundError: There is no such object.
        OSError: The store failed.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise (FileNotFoundError if _ABSENT in str(error) else OSError)(reason_of(error)) from error


def reason_of(error: Exception) -> str:
    """An error as one line, without colours and the document or the stack trace that the server sent."""
    lines = (" ".join(line.split()) for line in _DOCUMENT.split(_ESCAPES.sub("", str(error)))[0].splitlines())
    return ": ".join(line for line in lines if line)[:_REASON_CHARS]


def of_deltalake(place: str, options: Mapping[str, str]) -> Any:
    """The objects below a place, in deltalake's store.

    Args:
        place: The place.
        options: Storage options of deltalake, beside the environment.

    Raises:
        LakeError: deltalake is not installed.
    """
    from pyarrow.fs import PyFileSystem

    try:
        from deltalake.fs import DeltaStorageHandler
    except ImportError:
        raise LakeError(INSTALL) from None
    with readable():
        return PyFileSystem(DeltaStorageHandler(place, dict(options)))


def of_iceberg(place: str, options: Mapping[str, str]) -> Any:
    """The objects below a place on S3, in deltalake's store too: Arrow's, which pyiceberg has, makes folders on S3 as it deletes.

    Args:
        place: The place.
        options: Properties of pyiceberg, beside the environment.

    Raises:
        LakeError: deltalake is not installed.
    """
    return of_deltalake(place, {_OF_PYICEBERG[name]: value for name, value in options.items() if name in _OF_PYICEBERG})


INSTALL = (
    "format='delta' needs deltalake on the driver, and any table on S3 and HDFS on driver and workers: pip install "
    "'headrace-engine[lake]'"
)
