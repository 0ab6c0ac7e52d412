"""Rows of a file of JSON lines."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.contract.columns import NULL_TIME
from headrace.engine._errors import HistoryError, OptionError
from headrace.engine.history.files import File
from headrace.engine.history.request import UNITS, WHOLE_ROW, ColumnNames, parse_time
from headrace.engine.history.row_columns import Integers, Rows, checked_times, time_column


@dataclass(frozen=True)
class Lines:
    """Reads lines of JSON, each of which is a message; its value is the line, unless a column is named."""

    file: File
    begin: int
    names: ColumnNames
    ordered: bool
    whole: bool

    def rows(self, text: bytes) -> Rows:
        """The rows of some lines."""
        lines = [line for line in text.split(b"\n") if line.strip()]
        found = [self._document(line) for line in lines]
        times = checked_times(self.file, np.array([self._time(document) for document in found], np.int64))
        streams = sequences = None
        if self.ordered:
            streams = [str(self._field(document, self.names.stream)) for document in found]
            sequences = np.array([int(self._field(document, self.names.sequence)) for document in found], np.int64)
        return Rows(0, self._messages(lines, found, times) if self.whole else None, times, streams, sequences)

    def _messages(self, lines: Sequence[bytes], documents: Sequence[dict[str, Any]], times: Integers) -> pa.Table:
        names, values = self.names, list[bytes | None](lines)
        if names.value not in (None, WHOLE_ROW):
            values = [_text(self._field(document, names.value)) for document in documents]
        columns = {"value": pa.array(values, pa.binary()), "event_time": time_column(times)}
        if names.key:
            columns["key"] = pa.array([_text(document.get(names.key)) for document in documents], pa.binary())
        if names.message_id:
            ids = [_text(document.get(names.message_id)) for document in documents]
            columns["message_id"] = pa.array([None if each is None else each.decode() for each in ids], pa.string())
        return pa.table(columns)

    def _document(self, line: bytes) -> dict[str, Any]:
        try:
            document = json.loads(line)
        except ValueError as error:
            raise self._wrong(f"{error}: {line[:60]!r}") from None
        if not isinstance(document, dict):
            raise self._wrong(f"a line is no JSON object: {line[:60]!r}")
        return document

    def _field(self, document: dict[str, Any], name: str) -> Any:
        if name not in document:
            raise self._wrong(f"a line has no field {name}: {json.dumps(document)[:60]}")
        return document[name]

    def _time(self, document: dict[str, Any]) -> int:
        if self.ordered and self.names.event_time not in document:
            return NULL_TIME
        value = self._field(document, self.names.event_time)
        if value is None:
            return NULL_TIME
        if isinstance(value, str):
            try:
                return parse_time(value)
            except OptionError:
                raise self._wrong(f"{value!r} is not an event time in ISO 8601 with its offset from UTC") from None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(f"{value!r} is no event time")
        factor, divisor = UNITS[self.names.unit]
        return int(value * factor // divisor)

    def _wrong(self, what: str) -> HistoryError:
        return HistoryError(f"history {self.file.path}, after byte {self.begin}: {what}")


def _text(value: Any) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value, separators=(",", ":")).encode()
