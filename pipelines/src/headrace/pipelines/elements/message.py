"""Messages: as steps after a source without `decode` receive them, and as the origin of other elements."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import index

import numpy as np
import numpy.typing as npt

from headrace.pipelines.elements.headers import NO_HEADERS, Headers

Times = npt.NDArray[np.int64]
"""Microseconds since 1970-01-01 UTC."""

NO_TIME = -(2**63)
"""An unknown event time, or a watermark before all times."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Messages of one stream, in its order, that elements come from.

    Attributes:
        stream: Its name.
        sequences: The sequence of each message.
        raw: The value of each message, if a step may still need it; None for a tombstone.
        keys: The key of each message, if a step may still need it.
        times: The event time of each message, NO_TIME if it has none; None if no step needs times.
        ids: The id of each message, if a step may need it.
        headers: The headers of each message, if a step or a sink may need them; None even if no message has any.
    """

    stream: str
    sequences: npt.NDArray[np.int64]
    raw: Sequence[bytes | None] | None = None
    keys: Sequence[bytes | None] | None = None
    times: Times | None = None
    ids: Sequence[str | None] | None = None
    headers: Sequence[Headers] | None = None

    def __len__(self) -> int:
        """The number of messages."""
        return len(self.sequences)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a stream.

    Attributes:
        value: The payload; None for a tombstone.
        key: The key, or None.
        event_time: Its event time, in microseconds since 1970-01-01 UTC; None if unknown.
        stream: The name of its stream, such as `orders/0`.
        sequence: Its sequence in the stream.
        message_id: Its id in the source, or None.
        headers: Its headers in the source.
    """

    value: bytes | None
    key: bytes | None = None
    event_time: int | None = None
    stream: str = "test/0"
    sequence: int = 0
    message_id: str | None = None
    headers: Headers = NO_HEADERS


def microseconds(time: datetime | int) -> int:
    """Converts a time to microseconds since 1970-01-01 UTC.

    Raises:
        TypeError: It is neither a datetime nor a whole number.
        ValueError: The datetime has no time zone.
    """
    if not isinstance(time, datetime):
        return index(time)
    if time.tzinfo is None:
        raise ValueError(f"{time!r} has no time zone; use datetime(..., tzinfo=UTC)")
    return (time - _EPOCH) // timedelta(microseconds=1)


def moment(time_us: int) -> datetime:
    """Converts microseconds since 1970-01-01 UTC to a datetime in UTC."""
    return _EPOCH + timedelta(microseconds=time_us)
