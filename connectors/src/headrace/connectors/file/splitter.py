"""Splits the data of a stream's files into records, and applies the policy to records that cannot be sent."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

from headrace.connectors._records import MAX_RECORD_BYTES, BadRecord, Format, Records, excess, last_line, split
from headrace.connectors.file._encoding import (
    Encoding,
    Undecodable,
    excess_of,
    first_end,
    last_end,
    last_text,
    looks_wide,
    marked,
    split_text,
)
from headrace.connectors.file._names import text_of
from headrace.connectors.file.beginning import Beginning
from headrace.connectors.file.options import Options
from headrace.connectors.file.place import Place
from headrace.connectors.file.unpacked import Damaged
from headrace.sdk import Message, PositionLost

_LONG_LINE_BYTES = 32 << 20
_KEPT_OF_BAD = 64 * 1024

log = logging.getLogger("headrace.connectors")


class Splitter:
    """Splits the data at a place. The place moves past each record before it is yielded."""

    def __init__(self, place: Place, options: Options) -> None:
        """Creates it.

        Args:
            place: The file or member that is read.
            options: How to read.
        """
        self._place = place
        self._options = options
        self._pieces: list[bytes] = []
        self._at_start = False
        self._beginning = Beginning(options.encoding, None)
        self._discarding = False
        self._to_discard = 0
        self.has_given_up = False
        """Whether the rest of the file is left out."""

    @property
    def _path(self) -> Path:
        """The file that is read."""
        return self._place.path if self._place.part is None else self._place.part.path

    def begin_at(self, offset: int) -> None:
        """Forgets what was read after the last record: the file that is open now is read from an offset.

        Raises:
            PositionLost: The offset lies within a character.
        """
        self._pieces = []
        place, default = self._place, self._options.encoding
        if not offset:
            self._beginning = Beginning(default, place.encoding)
        self._at_start = offset == self._beginning.zeros
        if self._at_start or self._options.format is not Format.LINES:
            return
        found = marked(place.head)
        encoding = place.encoding = default if default is Encoding.BYTES else found or place.encoding or default
        if offset % encoding.unit and encoding in (found, default):
            raise PositionLost(
                f"byte {offset} of {text_of(self._path)} lies within a character of {encoding.value}: the file was read "
                "with another encoding up to there, or the position was moved there"
            )

    def begin_next(self) -> None:
        """Begins with the next file."""
        self._discarding, self._to_discard, self.has_given_up = False, 0, False
        self.begin_at(0)

    def take(self, chunk: bytes) -> Iterator[Records]:
        """Yields the records that are complete with the next data, and keeps the incomplete rest.

        Raises:
            BadRecord: A record cannot be sent, and the policy is to fail.
        """
        if self._discarding:
            chunk = self._discard(chunk)
        if chunk and self._at_start and self._options.format is Format.LINES:
            chunk = self._first(chunk)
        if chunk:
            yield from self._split(chunk) if self._encoding.unit == 1 else self._split_text(chunk)
        self._refuse_excess()

    @property
    def _encoding(self) -> Encoding:
        return self._place.encoding or Encoding.UTF_8

    def _split(self, chunk: bytes) -> Iterator[Records]:
        pieces, lines = self._pieces, self._options.format is Format.LINES
        # A line of many chunks is joined once, when its end was read.
        if pieces and lines and b"\n" not in chunk and sum(map(len, pieces)) < _LONG_LINE_BYTES:
            pieces.append(chunk)
            return
        data = b"".join([*pieces, chunk]) if pieces else chunk
        try:
            records = split(data, self._place.offset, self._options.format)
        except BadRecord as error:
            self._refuse(data, error)
            return
        end = 0 if records is None else records.end - self._place.offset
        pieces[:] = [data[end:]] if end < len(data) else []
        if records is not None:
            yield self._read(records, data)

    def _split_text(self, chunk: bytes) -> Iterator[Records]:
        """Splits text whose code units have more than a byte. Every piece but the last consists of whole units."""
        pieces, encoding = self._pieces, self._encoding
        if pieces and len(pieces[-1]) % encoding.unit:
            chunk = pieces.pop() + chunk
        pieces.append(chunk)
        if not last_end(chunk, encoding) and sum(map(len, pieces)) <= MAX_RECORD_BYTES:
            return
        data, start = b"".join(pieces), self._place.offset
        pieces.clear()
        for each in split_text(data, start, encoding):
            if isinstance(each, Undecodable):
                self._leave_out(each)
            else:
                yield self._read(each, data[self._place.offset - start :])
        rest = data[self._place.offset - start :]
        if (error := excess_of(rest, self._place.offset)) is not None:
            self._refuse(rest, error)
        elif rest:
            pieces.append(rest)

    def _leave_out(self, line: Undecodable) -> None:
        """Skips a line that is no text.

        Raises:
            BadRecord: The policy is to fail.
        """
        self._options.bad_record(self._bad(line.data), BadRecord(f"{text_of(self._path)}: {line.error}"))
        self._skip(line.data)

    def _read(self, records: Records, data: bytes) -> Records:
        """Moves the place past the records at the beginning of the data."""
        self._place.passed(data, records.end - self._place.offset)
        self._place.offset = records.end
        return records

    def _first(self, chunk: bytes, *, is_whole: bool = False) -> bytes:
        """Skips what precedes the first line of a file; returns what follows, once the encoding of its lines can be told."""
        data = b"".join([*self._pieces, chunk])
        count, encoding = self._beginning.skipped(data, is_whole=is_whole)
        self._skip(data[:count])
        rest = data[count:]
        self._pieces[:] = [rest] if rest and encoding is None else []
        if encoding is None:
            return b""
        self._at_start, self._place.encoding = False, encoding
        if self._beginning.zeros:
            log.warning(
                "skipped %d zero bytes at the beginning of %s: it was truncated while its writer did not append; let it append",
                self._beginning.zeros,
                text_of(self._path),
            )
        if encoding is Encoding.UTF_8 and looks_wide(rest):
            log.warning("%s has no byte order mark, and looks like UTF-16: if it is, set encoding", text_of(self._path))
        return rest

    def _refuse(self, data: bytes, error: BadRecord) -> None:
        """Skips a line that is far too long, up to its end.

        Raises:
            BadRecord: The policy is to fail.
        """
        self._options.bad_record(self._bad(data), BadRecord(f"{text_of(self._path)}: {error}"))
        self._discarding = True
        self._skip_units(data)

    def _skip_units(self, data: bytes) -> None:
        """Skips whole code units, and keeps the rest."""
        whole = len(data) - len(data) % self._encoding.unit
        self._skip(data[:whole])
        self._pieces[:] = [data[whole:]] if whole < len(data) else []

    def _refuse_excess(self) -> None:
        """Skips a length-prefixed record with a far too large length, up to its announced end.

        Raises:
            BadRecord: The policy is to fail.
        """
        if not self._pieces or self._options.format is not Format.LENGTH_PREFIXED:
            return
        data = b"".join(self._pieces)
        if (size := excess(data)) is None:
            return
        error = BadRecord(
            f"{text_of(self._path)}: the record at byte {self._place.offset} announces {size - 4} bytes, more than "
            f"{MAX_RECORD_BYTES}; it ends at byte {self._place.offset + size}, if the file is in length-prefixed format at all"
        )
        self._options.bad_record(self._bad(data), error)
        self._discarding, self._to_discard = True, size - len(data)
        self._pieces.clear()
        self._skip(data)

    def give_up(self, damage: Damaged) -> None:
        """Skips the rest of a compressed file that cannot be decompressed.

        Raises:
            BadRecord: The policy is to fail.
        """
        data = b"".join(self._pieces)
        end = self._place.offset + len(data)
        error = BadRecord(
            f"{text_of(self._path)} is damaged after decompressed byte {end} ({damage}): everything from byte "
            f"{self._place.offset} on counts as one record that cannot be sent"
        )
        self._options.bad_record(self._bad(data), error)
        self._pieces.clear()
        self._skip(data)
        self.has_given_up = True

    def _bad(self, data: bytes) -> Message:
        """Returns a record that cannot be sent, for the policy: its beginning, and its place."""
        where = (("file-path", os.fsencode(self._path)), ("file-offset", b"%d" % self._place.offset))
        return Message(data[:_KEPT_OF_BAD], sequence=self._place.sequence + len(data), headers=where)

    def _discard(self, chunk: bytes) -> bytes:
        """Reads to the end of a skipped record; returns what follows it."""
        if self._options.format is Format.LINES:
            chunk = b"".join([*self._pieces, chunk])
            self._pieces.clear()
            end = first_end(chunk, self._encoding)
            self._discarding = not end
        else:
            end = min(len(chunk), self._to_discard)
            self._to_discard -= end
            self._discarding = self._to_discard > 0
        self._skip_units(chunk if self._discarding else chunk[:end])
        return b"" if self._discarding else chunk[end:]

    def _skip(self, data: bytes) -> None:
        """Moves past bytes that belong to no record."""
        self._place.passed(data, len(data))
        self._place.offset += len(data)

    def rest(self) -> Iterator[Records]:
        """Yields the rest at the end of a finished file, if it is a record.

        Raises:
            BadRecord: It is not, and the policy is to fail.
        """
        if self._at_start and self._options.format is Format.LINES:
            self._pieces = [self._first(b"", is_whole=True)]
        rest = b"".join(self._pieces)
        self._pieces = []
        if not rest:
            return
        if self._discarding:
            self._skip(rest)
            return
        if self._options.format is Format.LENGTH_PREFIXED:
            error = BadRecord(
                f"{text_of(self._path)}: the record at byte {self._place.offset} is incomplete: the file ends "
                f"after {len(rest)} bytes of it"
            )
            self._options.bad_record(self._bad(rest), error)
            self._skip(rest)
            return
        encoding = self._encoding
        last = last_line(rest, self._place.offset) if encoding.unit == 1 else last_text(rest, self._place.offset, encoding)
        if isinstance(last, Undecodable):
            self._leave_out(last)
        else:
            yield self._read(last, rest)
