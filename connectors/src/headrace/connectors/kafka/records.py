"""Turns record batches of Kafka's log into columns, without an object for each record.

kafka-python creates four objects for each record, which costs ten times as much as the rest of a fetch. The layout is
message format 2: https://kafka.apache.org/documentation/#recordbatch
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka import codec
from kafka.errors import UnsupportedCodecError

from headrace.connectors.kafka.internals import raw
from headrace.sdk import Batch, Headers, InvalidMessage

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""Kafka's numbers for them."""
_PACKAGES = {"snappy": ("python-snappy", codec.has_snappy), "lz4": ("lz4", codec.has_lz4), "zstd": ("zstandard", codec.has_zstd)}
_NO_TIMESTAMP = -1
_NULL = -1
_HEADER_BYTES = 61
_CUT_SHORT = "a record is truncated"


@dataclass(slots=True)
class Records:
    """Consecutive records of one partition, in columns.

    Attributes:
        offsets: Their offsets.
        times: Their timestamps in milliseconds since 1970-01-01 UTC; -1 for none.
        keys: Their keys.
        values: Their values; None for a tombstone.
        headers: Their headers by index, for records that have headers.
        size: The size of keys and values, in bytes.
    """

    offsets: "array[int]" = field(default_factory=lambda: array("q"))
    times: "array[int]" = field(default_factory=lambda: array("q"))
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: dict[int, Headers] = field(default_factory=dict)
    size: int = 0

    def __len__(self) -> int:
        """Returns the number of records."""
        return len(self.values)

    def batch(self, cursor: bytes | None) -> Batch:
        """Returns the records as a batch of the SDK. The sequence of each record is the offset after it."""
        first, last, count = self.offsets[0] + 1, self.offsets[-1] + 1, len(self.values)
        sequences: Sequence[int] = range(first, last + 1)
        if len(sequences) != count:
            sequences = [offset + 1 for offset in self.offsets]
        headers = [self.headers.get(at) for at in range(count)] if self.headers else None
        keys = None if self.keys.count(None) == count else self.keys
        return Batch(self.values, keys, _microseconds(self.times), headers=headers, sequences=sequences, cursor=cursor)

    def add(self, batch: Any, start: int) -> None:
        """Adds the records of a kafka-python batch, except those before offset `start`; all of them or none.

        Raises:
            InvalidMessage: The records are inconsistent.
            UnsupportedCodecError: They are compressed with a codec that needs a package that is not installed.
        """
        before = len(self.values)
        try:
            if batch.magic == 2:
                self._add(*_unpacked(batch), batch)
            else:
                self._add_one_by_one(batch)
        except BaseException:
            self._cut(before)
            raise
        if self.offsets[before:] and self.offsets[before] < start:
            self._drop(before, start)
        self.size += _size(self.keys[before:]) + _size(self.values[before:])

    def _add(self, data: bytes, at: int, batch: Any) -> None:
        """Adds records of message format 2, which begin at index `at`."""
        base_offset, first_time, count = batch.base_offset, batch.first_timestamp, batch.records_count
        offsets: list[int] = []
        times: list[int] = []
        keys, values = self.keys, self.values
        try:
            # Inlined, because a function call for each number would take three times as long. Numbers are zigzag varints, nearly
            # all of one byte.
            for _ in range(count):
                while data[at] & 0x80:  # the record's length
                    at += 1
                at += 2  # the last byte of it, and the attributes, which are unused so far
                number = data[at]
                at += 1
                if number & 0x80:
                    number, at = _rest(data, at, number)
                times.append((number >> 1) ^ -(number & 1))
                number = data[at]
                at += 1
                if number & 0x80:
                    number, at = _rest(data, at, number)
                offsets.append(number >> 1)
                number = data[at]
                at += 1
                if number & 0x80:
                    number, at = _rest(data, at, number)
                if number & 1:
                    keys.append(None)
                else:
                    end = at + (number >> 1)
                    keys.append(data[at:end])
                    at = end
                number = data[at]
                at += 1
                if number & 0x80:
                    number, at = _rest(data, at, number)
                if number & 1:
                    values.append(None)
                else:
                    end = at + (number >> 1)
                    values.append(data[at:end])
                    at = end
                number = data[at]
                at += 1
                if number:
                    self.headers[len(values) - 1], at = _headers(data, at - 1)
        except IndexError:
            raise InvalidMessage(_CUT_SHORT) from None
        if at != len(data):
            raise InvalidMessage(_CUT_SHORT)
        try:
            self.offsets.extend([base_offset + delta for delta in offsets])
            if batch.timestamp_type:
                self.times.extend([batch.max_timestamp] * count)
            elif first_time == _NO_TIMESTAMP:
                self.times.extend([_NO_TIMESTAMP] * count)
            else:
                self.times.extend([first_time + delta for delta in times])
        except OverflowError:
            raise InvalidMessage("a record has an offset or a time that does not fit in 64 bits") from None

    def _add_one_by_one(self, batch: Iterable[Any]) -> None:
        """Adds records of message formats 0 and 1, which brokers before Kafka 4.0 may still store."""
        try:
            for record in batch:
                self.offsets.append(record.offset)
                self.times.append(_NO_TIMESTAMP if record.timestamp is None else record.timestamp)
                self.keys.append(record.key)
                self.values.append(record.value)
        except UnsupportedCodecError:
            raise
        except Exception as error:  # errors of codecs or struct, or failed assertions of kafka-python
            raise InvalidMessage(f"its records cannot be parsed: {error}") from error

    def _cut(self, count: int) -> None:
        """Drops all but the first records."""
        for column in (self.offsets, self.times, self.keys, self.values):
            del column[count:]
        self.headers = {at: headers for at, headers in self.headers.items() if at < count}

    def _drop(self, first: int, start: int) -> None:
        """Drops records from index `first` on that are before offset `start`, because a broker returns whole batches."""
        stop = first
        while stop < len(self.offsets) and self.offsets[stop] < start:
            stop += 1
        for column in (self.offsets, self.times, self.keys, self.values):
            del column[first:stop]
        dropped = stop - first
        self.headers = {at if at < first else at - dropped: h for at, h in self.headers.items() if not first <= at < stop}


def _unpacked(batch: Any) -> tuple[bytes, int]:
    """Returns the decompressed bytes of the records of a batch, and where they begin.

    Raises:
        InvalidMessage: The data is damaged.
        UnsupportedCodecError: They are compressed with a codec that needs a package that is not installed.
    """
    data = raw(batch)
    if not batch.compression_type:
        return data, _HEADER_BYTES
    try:
        return unpacked(data[_HEADER_BYTES:], batch.compression_type), 0
    except ValueError as error:
        raise InvalidMessage(str(error)) from error


def _rest(data: bytes, at: int, first: int) -> tuple[int, int]:
    """Reads the rest of a varint after its first byte; returns it, still zigzag-encoded, and where it ends."""
    number, shift = first & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Reads a number; returns it and where it ends."""
    number, at = _rest(data, at + 1, data[at]) if data[at] & 0x80 else (data[at], at + 1)
    return (number >> 1) ^ -(number & 1), at


def _headers(data: bytes, at: int) -> tuple[Headers, int]:
    """Reads the headers of a record; returns them and where they end. Raises IndexError if they are inconsistent."""
    headers: list[tuple[str, bytes | None]] = []
    count, at = _number(data, at)
    for _ in range(count):
        length, at = _number(data, at)
        if length < 0:
            raise IndexError
        # Not "replace", which would make one name of several.
        name = data[at : at + length].decode(errors="backslashreplace")
        length, at = _number(data, at + length)
        if length == _NULL:
            headers.append((name, None))
        elif length < 0:
            raise IndexError
        else:
            headers.append((name, data[at : at + length]))
            at += length
    return headers, at


def _microseconds(times: "array[int]") -> "array[int] | list[int | None]":
    """Timestamps as event times."""
    if _NO_TIMESTAMP in times:
        return [None if time == _NO_TIMESTAMP else time * 1000 for time in times]
    microseconds = [time * 1000 for time in times]
    try:
        return array("q", microseconds)
    except OverflowError:
        # A producer may write any time; the SDK detects messages with an impossible one.
        return list(microseconds)


def _size(entries: Sequence[bytes | None]) -> int:
    """Returns the total size, in bytes."""
    if None in entries:
        return sum(len(entry) for entry in entries if entry is not None)
    return sum(map(len, entries))  # type: ignore[arg-type]


def missing_package(name: str) -> str | None:
    """Returns the package that a codec needs; None if it is installed, or none is needed."""
    package, is_there = _PACKAGES.get(name, (None, None))
    return None if is_there is None or is_there() else package


def name_of(number: int) -> str:
    """Returns the name of a codec, by its number."""
    return next((name for name, known in CODECS.items() if known == number), f"codec {number}")


def unpacked(data: bytes, number: int) -> bytes:
    """Decompresses data.

    Raises:
        UnsupportedCodecError: The codec needs a package that is not installed.
        ValueError: The data is damaged, or no codec has this number.
    """
    name = name_of(number)
    if package := missing_package(name):
        raise UnsupportedCodecError(f"compressed with {name}; run: pip install {package}")
    decode = {"gzip": codec.gzip_decode, "snappy": codec.snappy_decode, "lz4": codec.lz4_decode, "zstd": codec.zstd_decode}
    if name not in decode:
        raise ValueError(f"{name} is not a codec of Kafka")
    try:
        return bytes(decode[name](data))
    except Exception as error:  # each package has its own exceptions
        raise ValueError(f"data compressed with {name} cannot be decompressed: {error}") from error
