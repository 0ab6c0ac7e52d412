"""Where the files of a history are: on a local disk, on S3 or HDFS, or in another store that Arrow reads."""

from functools import cache
from pathlib import Path

from pyarrow import fs

from headrace.engine._errors import HistoryError
from headrace.engine.s3_environment import TIMEOUT_S, endpoint, region

LAKE_INSTALL = "install headrace-engine[lake]"
_FILE, _S3, _HDFS = "file://", "s3://", "hdfs://"


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
