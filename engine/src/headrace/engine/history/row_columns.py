"""Rows of a file of the past, in columns."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.contract.columns import MAX_TIME, MIN_TIME, NULL_TIME
from headrace.engine._errors import HistoryError
from headrace.engine.history.files import File

TIME = pa.timestamp("us", tz="UTC")

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Rows of a file.

    Attributes:
        first: The number of the first one in its part.
        messages: The columns `value` and `event_time`, and `key`, `message_id` and `headers` if the file contains them;
            None if the caller asked for times, streams and sequences only.
        times: The event times, NULL_TIME for none.
        streams: The stream of each; None if the file has no such column.
        sequences: The sequence of each; None if the file has no such column.
    """

    first: int
    messages: pa.Table | None
    times: Integers
    streams: list[str] | None
    sequences: Integers | None


def checked_times(file: File, times: Integers) -> Integers:
    """Event times, if they are in the years 1 to 9999.

    Raises:
        HistoryError: One is not.
    """
    outside = (times != NULL_TIME) & ((times < MIN_TIME) | (times > MAX_TIME))
    if outside.any():
        raise HistoryError(
            f"history {file.path}: the event time {int(times[outside][0])} is not in the years 1 to 9999; is its unit another "
            "one, such as event_time=at:ms?"
        )
    return times


def time_column(times: Integers) -> pa.Array:
    """Event times as a column of Arrow."""
    return pa.array(times, pa.int64(), mask=times == NULL_TIME).cast(TIME)
