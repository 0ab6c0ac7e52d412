"""Where the files of a history are: on a local disk, on S3 or HDFS, or in another store that Arrow reads."""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pyarrow import fs

from headrace.engine._errors import HistoryError

LAKE_INSTALL = "install headrace-engine[lake]"
_FILE, _S3, _HDFS = "file://", "s3://", "hdfs://"
_ENDPOINTS, _REGIONS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), ("AWS_REGION", "AWS_DEFAULT_REGION")


def store_of(path: str) -> tuple[fs.FileSystem, str]:
    """The store of a path or URL, and the path in it.

    Raises:
        HistoryError: Its library is not installed.
        OSError: The store cannot be reached, or is unknown.
    """
    path = path.removeprefix(_FILE)
    if "://" not in path:
        return fs.LocalFileSystem(), str(Path(path).absolute())
    options = _s3_options(os.environ)
    if path.startswith(_S3) and options and "?" not in path:
        return _s3(**options), path.removeprefix(_S3).rstrip("/")
    if path.startswith(_HDFS):
        host, _, inner = path.removeprefix(_HDFS).partition("/")
        return _hdfs(_HDFS + host), inner.rstrip("/")
    store, inner = fs.FileSystem.from_uri(path)
    return store, inner


def _s3_options(environ: Mapping[str, str]) -> dict[str, Any]:
    """The endpoint and the region that the environment names for deltalake and the tools of AWS, which Arrow does not read."""
    found = {
        "endpoint_override": next((environ[name] for name in _ENDPOINTS if environ.get(name)), None),
        "region": next((environ[name] for name in _REGIONS if environ.get(name)), None),
    }
    return {name: value for name, value in found.items() if value}


@cache
def _s3(**options: Any) -> fs.FileSystem:
    return fs.S3FileSystem(**options)


@cache
def _hdfs(root: str) -> fs.FileSystem:
    """HDFS by deltalake's client: Arrow's needs a library of Hadoop, which few machines have."""
    try:
        from deltalake.fs import DeltaStorageHandler
    except ImportError:
        raise HistoryError(f"history {root}: HDFS is read by deltalake: {LAKE_INSTALL}") from None
    return fs.PyFileSystem(DeltaStorageHandler(root, {}))
