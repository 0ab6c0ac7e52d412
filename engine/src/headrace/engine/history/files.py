"""The files of a history, as a checkpoint keeps them, and their stores: a disk, S3, HDFS, or another that Arrow reads."""

import gzip
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from headrace.engine._errors import HistoryError
from headrace.engine.s3_environment import TIMEOUT_S, endpoint, region

LAKE_INSTALL = "install headrace-engine[lake]"
_FILE, _S3, _HDFS = "file://", "s3://", "hdfs://"
PARQUET, LINES, PACKED_LINES = "parquet", "lines", "packed lines"
Values = tuple[tuple[str, str | int | bool | None], ...]
"""Columns of a table, and the value that each has in all rows of a file."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of a history.

    Attributes:
        path: Its path or URL.
        kind: PARQUET, LINES or PACKED_LINES.
        size: Its size in bytes, when it was listed.
        values: The columns by which its table is divided, with their values, where the file lacks these columns.
    """

    path: str
    kind: str
    size: int
    values: Values = ()

    def open(self) -> pa.NativeFile:
        """Opens it for random access.

        Raises:
            HistoryError: It cannot be opened, or has changed since it was listed.
        """
        try:
            store, inner = store_of(self.path)
            opened = store.open_input_file(inner)
            size = opened.size()
        except OSError as error:
            raise HistoryError(f"history {self.path}: {error}; put the file back, which the checkpoint has listed") from None
        if size != self.size:
            raise HistoryError(
                f"history {self.path}: the file had {self.size} bytes when the checkpoint began, and now has {size}; put it back "
                "as it was, or begin with a new checkpoint"
            )
        return opened

    def text(self, begin: int, end: int) -> bytes:
        """The bytes of a file of lines from `begin` (inclusive) to `end` (exclusive), unpacked.

        Raises:
            HistoryError: As `open`, or the file is damaged.
        """
        with self.open() as opened:
            if self.kind == LINES:
                opened.seek(begin)
                return bytes(opened.read(end - begin))
            try:
                return gzip.decompress(opened.read())[begin:end]
            except (OSError, EOFError) as error:
                raise HistoryError(f"history {self.path}: {error}; replace the damaged file") from None


def store_of(path: str) -> tuple[fs.FileSystem, str]:
    """The store of a path or URL, and the path in it.

    Raises:
        HistoryError: Its library is not installed.
        OSError: The store cannot be reached, or is unknown.
    """
    path = path.removeprefix(_FILE)
    if "://" not in path:
        return fs.LocalFileSystem(), str(Path(path).absolute())
    if path.startswith(_S3) and "?" not in path and (endpoint() or region()):
        return _s3(endpoint(), region()), path.removeprefix(_S3).rstrip("/")
    if path.startswith(_HDFS):
        host, _, inner = path.removeprefix(_HDFS).partition("/")
        return _hdfs(_HDFS + host), inner.rstrip("/")
    store, inner = fs.FileSystem.from_uri(path)
    return store, inner


@cache
def _s3(server: str | None, place: str | None) -> fs.FileSystem:
    return fs.S3FileSystem(endpoint_override=server, region=place, request_timeout=TIMEOUT_S)


@cache
def _hdfs(root: str) -> fs.FileSystem:
    """HDFS by deltalake's client: Arrow's needs a library of Hadoop, which few machines have."""
    try:
        from deltalake.fs import DeltaStorageHandler
    except ImportError:
        raise HistoryError(f"history {root}: HDFS is read by deltalake: {LAKE_INSTALL}") from None
    return fs.PyFileSystem(DeltaStorageHandler(root, {}))
