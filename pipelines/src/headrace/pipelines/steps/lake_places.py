"""Where tables of files are: in a folder of a disk, or in a store: on S3 or HDFS."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from headrace.contract.units import UnitError, format_size, parse_size
from headrace.pipelines import arguments as check
from headrace.pipelines._errors import GraphError

_S3 = "s3://"
_ALSO_S3 = "s3a://"
"""As Spark names S3."""
_HDFS = "hdfs://"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_NAME_NODE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?")
"""A name node, or the name service that Hadoop's configuration describes."""
_TABLE = re.compile(r"[^.]+(\.[^.]+){2,}")
MIN_FILE_BYTES, MAX_FILE_BYTES = 1 << 20, 4 << 30
"""S3 copies objects of at most 5 GB, and a file is copied to its place once the micro-batch is committed."""
_FOLDER = re.compile(r"(?!\.\.?$)[A-Za-z0-9._=+-]+")


def is_in_store(place: str) -> bool:
    """Whether a place is on S3 or HDFS, and not on a disk."""
    return place.startswith((_S3, _HDFS))


def located(where: str, path: Any) -> str:
    """Returns the place of a table, whatever folder a process works in.

    Raises:
        GraphError: It is neither the path of a folder nor a place on S3 or HDFS.
    """
    if not isinstance(path, (str, Path)) or not str(path) or not str(path).isprintable():
        raise GraphError(f"{where}: path is the folder of a table, such as 'tables/orders', not {check.excerpt(path)}")
    text = str(path)
    if text.startswith((_S3, _ALSO_S3)):
        return _in_store(where, text, _S3, _BUCKET, "s3://bucket/folder")
    if text.startswith(_HDFS):
        return _in_store(where, text, _HDFS, _NAME_NODE, "hdfs://namenode:9820/folder")
    if isinstance(path, Path) and text.startswith(("s3:/", "s3a:/", "hdfs:/")):
        raise GraphError(f"{where}: path: a Path names no place on S3 or HDFS; give it as text, such as 's3://bucket/orders'")
    if "://" in text or text.startswith("file:"):
        raise GraphError(
            f"{where}: path is a folder on a disk that all workers share, without a scheme, or 's3://bucket/folder' or "
            f"'hdfs://namenode:9820/folder', not {check.excerpt(path)}"
        )
    return os.path.abspath(text)


def check_for_delta(where: str, place: str) -> None:
    """Checks that deltalake opens the folder of this name.

    Raises:
        GraphError: It would open another one.
    """
    if unquote(place) != place or "\\" in place:
        raise GraphError(f"{where}: path: deltalake would open another folder than {place}; name it without % and \\")


def check_for_parquet(where: str, place: str) -> None:
    """Checks that one rename shows the files of a micro-batch.

    Raises:
        GraphError: It is not on a disk.
    """
    if is_in_store(place):
        raise GraphError(
            f"{where}: format='parquet' shows a micro-batch by renaming its folder on a disk: use format='delta' for {place}"
        )


def check_for_iceberg(where: str, place: str) -> None:
    """Checks that pyiceberg and others find the files of the folder by its URI.

    Raises:
        GraphError: They would not, or the place is on HDFS.
    """
    if place.startswith(_HDFS):
        raise GraphError(f"{where}: format='iceberg' writes to disks and S3 only: use format='delta' for {place}")
    if set(place) & set("%?#\\"):
        raise GraphError(
            f"{where}: path: readers of Iceberg would open another folder than {place}; name it without %, ?, # and \\"
        )


def opened_with(where: str, format: str, table: Any, options: Any) -> tuple[str, dict[str, str]]:
    """Returns the name of a table in its catalog, and the options of its library.

    Raises:
        GraphError: One of them is invalid, or is not for tables of this format.
    """
    if format == "iceberg" and not (isinstance(table, str) and _TABLE.fullmatch(table) and table.isprintable()):
        raise GraphError(
            f"{where}: table is the name of an Iceberg table, as catalog.namespace.table such as 'prod.sales.orders', not "
            f"{check.excerpt(table)}"
        )
    if format != "iceberg" and table is not None:
        raise GraphError(f"{where}: table names a table in a catalog, which only format='iceberg' has")
    given = {} if options is None else options
    if not isinstance(given, Mapping) or not all(isinstance(each, str) for pair in given.items() for each in pair):
        raise GraphError(f"{where}: options is a dict of texts, such as {{'uri': 'http://catalog:8181'}}")
    if given and format == "parquet":
        raise GraphError(f"{where}: options are for format='delta' and 'iceberg'; a folder of Parquet files has none")
    return table or "", dict(given)


def file_bytes(where: str, size: Any) -> int:
    """Returns the size of a file in bytes.

    Raises:
        GraphError: It is no size, too small for a file of columns, or too large for a store.
    """
    try:
        found = parse_size(size) if isinstance(size, str) else check.whole(where, "file_size", size)
    except UnitError as error:
        raise GraphError(f"{where}: file_size: {error}") from None
    if found < MIN_FILE_BYTES:
        raise GraphError(
            f"{where}: file_size is at least {format_size(MIN_FILE_BYTES)}, not {check.excerpt(size)}: readers open each file"
        )
    if found > MAX_FILE_BYTES:
        raise GraphError(
            f"{where}: file_size is at most {format_size(MAX_FILE_BYTES)}, not {check.excerpt(size)}: S3 moves no larger file"
        )
    return found


def are_apart(place: str, other: str) -> bool:
    """Whether no reader of one table finds files of the other one: they are neither one folder, nor one inside the other."""
    if is_in_store(place) != is_in_store(other):
        return True
    if is_in_store(place):
        return not (f"{place}/".startswith(f"{other}/") or f"{other}/".startswith(f"{place}/"))
    here, there = os.path.realpath(place), os.path.realpath(other)
    return os.path.commonpath([here, there]) not in (here, there)


def _in_store(where: str, text: str, scheme: str, store: re.Pattern[str], example: str) -> str:
    first, *folders = text.partition("://")[2].rstrip("/").split("/")
    if not store.fullmatch(first) or not folders or not all(map(_FOLDER.fullmatch, folders)):
        raise GraphError(
            f"{where}: path is '{example}', whose folders have only ASCII letters, digits and ._=+-, not {check.excerpt(text)}"
        )
    return scheme + "/".join([first, *folders])
