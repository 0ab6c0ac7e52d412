"""The encodings of lines: found by byte order marks, and split in code units of any size. Pure functions."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from headrace.connectors._records import MAX_RECORD_BYTES, BadRecord, Records
from headrace.sdk import Packed, Steps


class Encoding(Enum):
    """How the lines of a file are encoded. They are sent in UTF-8."""

    UTF_8 = "utf-8"
    """UTF-8, or any bytes in which a line feed ends a line: they are sent as they are."""
    UTF_16_LE = "utf-16-le"
    UTF_16_BE = "utf-16-be"
    UTF_32_LE = "utf-32-le"
    UTF_32_BE = "utf-32-be"
    BYTES = "bytes"
    """As UTF-8, but a byte order mark is part of the first line and has no meaning."""

    @property
    def unit(self) -> int:
        """The size of a code unit, in bytes."""
        return {"utf-16": 2, "utf-32": 4}.get(self.value[:6], 1)

    @property
    def byte_order_mark(self) -> bytes:
        """The mark at the beginning of a file."""
        return b"" if self is Encoding.BYTES else "\ufeff".encode(self.value)

    @property
    def line_feed(self) -> bytes:
        """The end of a line."""
        return b"\n" if self.unit == 1 else "\n".encode(self.value)


# The mark of UTF-32 begins with the mark of UTF-16, if both are little-endian.
_MARKED = (Encoding.UTF_32_LE, Encoding.UTF_32_BE, Encoding.UTF_16_LE, Encoding.UTF_16_BE, Encoding.UTF_8)


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A line that is no text in its encoding.

    Attributes:
        data: Its bytes in the file, with the line feed.
        error: Why it is none.
    """

    data: bytes
    error: BadRecord


def marked(head: bytes) -> Encoding | None:
    """Returns the encoding whose byte order mark data begins with; None if it begins with none."""
    return next((each for each in _MARKED if head.startswith(each.byte_order_mark)), None)


def may_be_marked(head: bytes) -> bool:
    """Returns whether more data is needed to tell which byte order mark it begins with, if any."""
    return any(len(head) < len(each.byte_order_mark) and each.byte_order_mark.startswith(head) for each in _MARKED)


def looks_wide(head: bytes) -> bool:
    """Returns whether data looks like plain text in UTF-16: every other byte is zero."""
    return len(head) >= 8 and any(not any(head[at:64:2]) and all(head[1 - at : 64 : 2]) for at in (0, 1))


def first_end(data: bytes, encoding: Encoding, start: int = 0) -> int:
    """Returns where the first line in `data` ends that does so after `start`, a multiple of code units; 0 if none does."""
    line_feed, unit = encoding.line_feed, encoding.unit
    at = data.find(line_feed, start)
    while at % unit and at > 0:
        at = data.find(line_feed, at - at % unit + unit)
    return at + unit if at >= 0 else 0


def last_end(data: bytes, encoding: Encoding, start: int = 0, end: int | None = None) -> int:
    """Returns where the last line in a part of `data` ends; 0 if none does. `start` and `end` are multiples of code units."""
    line_feed, unit = encoding.line_feed, encoding.unit
    at = data.rfind(line_feed, start, end)
    while at % unit and at > 0:
        at = data.rfind(line_feed, start, at - at % unit + unit)
    return at + unit if at >= 0 else 0


def split_text(data: bytes, offset: int, encoding: Encoding) -> Iterator[Records | Undecodable]:
    """Yields the complete lines at the start of `data`, in UTF-8, and lines that are no text.

    Args:
        data: The data; its first line begins at byte `offset` of the file.
        offset: The offset, in bytes of the file.
        encoding: Its encoding, with code units of more than a byte.
    """
    end, at = last_end(data, encoding), 0
    view = memoryview(data)
    while at < end:
        good, bad = end, 0
        try:
            text = str(view[at:end], encoding.value)
        except UnicodeDecodeError as error:
            wrong = at + error.start
            good, bad = last_end(data, encoding, at, wrong) or at, first_end(data, encoding, wrong)
            text, why = str(view[at:good], encoding.value), error.reason
        if text:
            yield _records(text, offset + at, good - at, encoding)
        if bad:
            yield Undecodable(data[good:bad], BadRecord(f"the line at byte {offset + good} is not in {encoding.value}: {why}"))
        at = bad or good


def last_text(data: bytes, offset: int, encoding: Encoding) -> Records | Undecodable:
    """Returns the rest of a file, which does not end with a line feed."""
    try:
        value = data.decode(encoding.value).encode()
    except UnicodeDecodeError as error:
        return Undecodable(data, BadRecord(f"the line at byte {offset} is not in {encoding.value}: {error.reason}"))
    end = offset + len(data)
    return Records(Packed(value, array("I", [len(value)])), Steps(end, array("I")), end)


def excess_of(data: bytes, offset: int) -> BadRecord | None:
    """Returns the error of a line without an end that is too long; None if it is not."""
    if len(data) <= MAX_RECORD_BYTES:
        return None
    return BadRecord(f"the record at byte {offset} is larger than {MAX_RECORD_BYTES} bytes; is the file in lines format?")


def _records(text: str, offset: int, size: int, encoding: Encoding) -> Records:
    """Returns the records of whole lines that take `size` bytes from `offset` on."""
    lines, unit = text[:-1].split("\n"), encoding.unit
    values = text[:-1].encode().split(b"\n")
    if unit * len(text) == size:
        steps = array("I", [unit * len(line) + unit for line in lines])
    else:
        steps = array("I", [len(line.encode(encoding.value)) + unit for line in lines])
    packed = Packed(b"".join(values), array("I", map(len, values)))
    return Records(packed, Steps(offset + steps.pop(0), steps), offset + size)
