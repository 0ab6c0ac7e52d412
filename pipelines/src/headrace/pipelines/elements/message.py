"""Messages, as steps after a source without `decode` receive them."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import index

from headrace.pipelines.elements.headers import NO_HEADERS, Headers

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
