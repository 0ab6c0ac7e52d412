"""Where tables of files are: in a folder of a disk, or on S3."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from headrace.pipelines import arguments as check
from headrace.pipelines._errors import GraphError

_S3 = "s3://"
_ALSO_S3 = "s3a://"
"""As Spark names it."""
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_TABLE = re.compile(r"[^.]+(\.[^.]+){2,}")
_FOLDER = re.compile(r"(?!\.\.?$)[A-Za-z0-9._=+-]+")


def is_on_s3(place: str) -> bool:
    """Whether a place is on S3."""
    return place.startswith(_S3)


def located(where: str, path: Any) -> str:
    """Returns the place of a table, whatever folder a process works in.

    Raises:
        GraphError: It is neither the path of a folder nor a place on S3.
    """
    if not isinstance(path, (str, Path)) or not str(path) or not str(path).isprintable():
        raise GraphError(f"{where}: path is the folder of a table, such as 'tables/orders', not {check.excerpt(path)}")
    text = str(path)
    if text.startswith((_S3, _ALSO_S3)):
        return _located_on_s3(where, text)
    if isinstance(path, Path) and text.startswith(("s3:/", "s3a:/")):
        raise GraphError(f"{where}: path: a Path names no place on S3; give it as text, such as 's3://bucket/orders'")
    if "://" in text or text.startswith("file:"):
        raise GraphError(
            f"{where}: path is a folder on a disk that all workers share, without a scheme, or 's3://bucket/folder', not "
            f"{check.excerpt(path)}"
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
        GraphError: S3 has no renames.
    """
    if is_on_s3(place):
        raise GraphError(
            f"{where}: format='parquet' shows a micro-batch by renaming its folder, which S3 cannot do: use format='delta' for "
            f"{place}"
        )


def check_for_iceberg(where: str, place: str) -> None:
    """Checks that pyiceberg and others find the files of the folder by its URI.

    Raises:
        GraphError: They would not, or the place is on S3.
    """
    if is_on_s3(place):
        raise GraphError(f"{where}: format='iceberg' writes to folders on disks only: use format='delta' for {place}")
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


def are_apart(place: str, other: str) -> bool:
    """Whether no reader of one table finds files of the other one: they are neither one folder, nor one inside the other."""
    if is_on_s3(place) != is_on_s3(other):
        return True
    if is_on_s3(place):
        return not (f"{place}/".startswith(f"{other}/") or f"{other}/".startswith(f"{place}/"))
    here, there = os.path.realpath(place), os.path.realpath(other)
    return os.path.commonpath([here, there]) not in (here, there)


def _located_on_s3(where: str, text: str) -> str:
    bucket, *folders = text.partition("://")[2].rstrip("/").split("/")
    if not _BUCKET.fullmatch(bucket) or not folders or not all(map(_FOLDER.fullmatch, folders)):
        raise GraphError(
            f"{where}: path is 's3://bucket/folder', whose folders have only ASCII letters, digits and ._=+-, not "
            f"{check.excerpt(text)}"
        )
    return _S3 + "/".join([bucket, *folders])
