"""The history that an application is asked to read: files, their columns, and where the streams continue."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headrace.engine._errors import OptionError

UNITS = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
"""What a column of numbers in each unit is multiplied with, and then divided by, for microseconds."""
WHOLE_ROW = "*"
"""The column of values if each value is the whole row, as JSON."""


@dataclass(frozen=True)
class ColumnNames:
    """The columns of files that have the fields of messages; empty for none.

    Attributes:
        key: The key, text or bytes.
        value: The value, text or bytes; `*` for the whole row as JSON, None for a column `value`, or a whole line.
        event_time: The event time; whole numbers are in `unit`.
        unit: `s`, `ms`, `us` or `ns`.
        message_id: The id.
        headers: The headers, a list of `name` and `value`.
        stream: The stream.
        sequence: The sequence in the stream.
    """

    key: str = "key"
    value: str | None = None
    event_time: str = "event_time"
    unit: str = "us"
    message_id: str = "message_id"
    headers: str = "headers"
    stream: str = "stream"
    sequence: str = "sequence"

    @classmethod
    def parse(cls, columns: Mapping[str, str]) -> "ColumnNames":
        """The names, the given ones in the place of the defaults.

        Raises:
            OptionError: There is no such field of a message.
        """
        fields = [name for name in cls.__dataclass_fields__ if name != "unit"]
        for name in columns:
            if name not in fields:
                raise OptionError(f"history: {name!r} is no field of a message; there are {', '.join(fields)}")
        names = dict(columns)
        column, _, unit = names.get("event_time", "").rpartition(":")
        if column and unit in UNITS:
            names |= {"event_time": column, "unit": unit}
        return cls(**names)


@dataclass(frozen=True)
class History:
    """Messages of the past, which an application reads before its streams.

    A checkpoint keeps the list of the files from its first start on, and where its streams continue. Later starts need no
    `History`, and a different one is an error.

    Attributes:
        paths: Files and folders of Parquet or JSON lines, Delta tables, and Iceberg tables as `iceberg:CATALOG.NAMESPACE.TABLE`
            or a file of metadata; the checkpoint keeps which files a table has. If the application reads several patterns of
            streams, each is `PATTERN=PATH`, with a pattern of the application.
        columns: The column of each field of a message, if it has another name than the field: `{"event_time": "at:ms"}`.
        until: The event time, in microseconds since 1970, before which messages come from the history, and from which on they
            come from the streams; None for where the history ends.
        then_live: Whether the application continues with its streams. Otherwise it ends with the history.
    """

    paths: Sequence[str]
    columns: Mapping[str, str] = field(default_factory=dict)
    until: int | None = None
    then_live: bool = False

    def by_pattern(self, patterns: Sequence[str]) -> list[tuple[str, str]]:
        """The paths, each after the pattern of the streams whose messages it has.

        Raises:
            OptionError: There is no path, or a path lacks its pattern.
        """
        if not self.paths:
            raise OptionError("history: name a file, a folder or a table")
        found = []
        for text in self.paths:
            pattern, _, path = text.partition("=")
            if pattern in patterns and path:
                found.append((pattern, path))
            elif len(patterns) == 1:
                found.append((patterns[0], text))
            else:
                raise OptionError(
                    f"history {text}: the application reads {', '.join(patterns)}; name the streams of these messages, such as "
                    f"{patterns[0]}={text}"
                )
        return found


def parse_time(text: str) -> int:
    """A time, in ISO 8601 with its distance to UTC, as microseconds since 1970.

    Raises:
        OptionError: It is not such a time.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise OptionError(f"until: {text!r} is no time with its distance to UTC, such as 2026-01-31T00:00:00Z")
    since = time - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
