"""Splits the bytes of a file into records, mostly without a Python loop over records. Pure functions."""

from array import array
from dataclasses import dataclass
from enum import Enum
from struct import Struct

from headrace.sdk import Packed, Steps

MAX_RECORD_BYTES = 64 << 20
"""The maximum size of a record, in bytes; a larger one indicates a file of another format."""

_PREFIX = Struct(">I")


class Format(Enum):
    """How records are delimited in a file."""

    LINES = "lines"
    """Each record ends with a line feed, which is not part of the value."""
    LENGTH_PREFIXED = "length-prefixed"
    """Each record is preceded by its length as a big-endian u32, which is not part of the value and does not count itself."""


class BadRecord(ValueError):
    """The file is not in the expected format."""


@dataclass(frozen=True, slots=True)
class Records:
    """Complete records, and the offset at which the last one ends."""

    values: Packed
    ends: Steps
    end: int


def split(data: bytes, offset: int, format_: Format) -> Records | None:
    """Splits off the complete records at the start of `data`, which begins at byte `offset` of the file; None if there are none.

    Raises:
        BadRecord: A line is larger than MAX_RECORD_BYTES. A length-prefixed record that is larger is not split off: see `excess`.
    """
    if format_ is Format.LENGTH_PREFIXED:
        return _split_prefixed(data, offset)
    records = _split_lines(data, offset)
    left = len(data) - (0 if records is None else records.end - offset)
    if left > MAX_RECORD_BYTES:
        start = offset if records is None else records.end
        raise BadRecord(
            f"the record at byte {start} is larger than {MAX_RECORD_BYTES} bytes; is the file in {format_.value} format?"
        )
    return records


def excess(data: bytes) -> int | None:
    """Returns the size of a length-prefixed record above MAX_RECORD_BYTES, in bytes, with its prefix; None if it is smaller."""
    if len(data) < _PREFIX.size:
        return None
    (length,) = _PREFIX.unpack_from(data)
    return _PREFIX.size + length if length > MAX_RECORD_BYTES else None


def last_line(data: bytes, offset: int) -> Records:
    """Returns the rest of a file that does not end with a line feed, as a record."""
    return Records(Packed(data, array("I", [len(data)])), Steps(offset + len(data), array("I")), offset + len(data))


def _split_lines(data: bytes, offset: int) -> Records | None:
    end = data.rfind(b"\n")
    if end < 0:
        return None
    lines = data[:end].split(b"\n")
    lengths = array("I", map(len, lines))
    steps = array("I", [length + 1 for length in lengths])
    first = offset + steps.pop(0)
    return Records(Packed(b"".join(lines), lengths), Steps(first, steps), offset + end + 1)


def _split_prefixed(data: bytes, offset: int) -> Records | None:
    values: list[bytes] = []
    at, size, unpack = 0, len(data), _PREFIX.unpack_from
    while at + 4 <= size:
        (length,) = unpack(data, at)
        end = at + 4 + length
        if end > size or length > MAX_RECORD_BYTES:
            break
        values.append(data[at + 4 : end])
        at = end
    if not values:
        return None
    lengths = array("I", map(len, values))
    steps = array("I", [length + 4 for length in lengths])
    first = offset + steps.pop(0)
    return Records(Packed(b"".join(values), lengths), Steps(first, steps), offset + at)
