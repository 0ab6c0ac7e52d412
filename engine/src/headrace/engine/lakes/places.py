"""Where the tables of an application are, and the options with which their libraries open them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.engine.lakes.objects import ObjectStaging, of_deltalake, of_iceberg
from headrace.engine.lakes.staging import DiskStaging, Staging
from headrace.pipelines.runtime import Lake, is_in_store


@dataclass(frozen=True, slots=True)
class Place:
    """A table.

    Attributes:
        path: Its folder, or its place on S3 or HDFS.
        format: How its files are committed.
        table: Its name in a catalog of Iceberg; empty if it is not known.
        options: Credentials, or properties of the catalog, for its library.
    """

    path: str
    format: str
    table: str = ""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


def place_of(lake: Lake) -> Place:
    """The table that a step writes to."""
    return Place(lake.path, lake.format, lake.table, lake.options)


def staging_at(place: Place, *, sync: bool) -> Staging:
    """The staged files of a table."""
    below = "data" if place.format == "iceberg" else ""
    if is_in_store(place.path):
        stored = of_iceberg if place.format == "iceberg" else of_deltalake
        return ObjectStaging(place.path, stored(place.path, place.options), below=below)
    return DiskStaging(Path(place.path), sync=sync, below=below)
