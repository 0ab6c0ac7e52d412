"""Reads one stream of files, through rotations. Everything here blocks, and runs on the thread of the source."""

import logging
import os
from collections.abc import Generator, Sequence
from pathlib import Path

from headrace.connectors._records import MAX_RECORD_BYTES, BadRecord, Format, Records, excess, last_line, split
from headrace.connectors.file._names import shown
from headrace.connectors.file._options import Options
from headrace.connectors.file._parts import Key, Part, is_removed
from headrace.connectors.file._place import Place
from headrace.connectors.file._unpacked import Damaged
from headrace.sdk import Backlog, Batch, Message, Position, Steps

_BACKLOG_BYTES = 64 * 1024
_LONG_LINE_BYTES = 32 << 20
_KEPT_OF_BAD = 64 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

log = logging.getLogger("headrace.connectors")


class Reader:
    """Reads one stream from a position on."""

    def __init__(self, path: Path, earlier: Sequence[Part], position: Position | None, base: int, options: Options) -> None:
        """Creates the reader, without opening a file.

        Args:
            path: The stream's own path.
            earlier: The files that it was rotated to and that should be read, oldest first.
            position: Where to continue; None for the beginning.
            base: The sequence to begin with if there is no position.
            options: How to read.
        """
        self.path = path
        self._place = Place(path, earlier, position, base, options)
        self._options = options
        self._opened = 0
        self._pieces: list[bytes] = []
        self._at_start = False
        self._zeros = 0
        self._discarding = False
        self._to_discard = 0
        self._given_up = False
        self.caught_up = False
        """Whether the last yielded item was None; set by the caller that yields it."""

    @property
    def sequence(self) -> int:
        """The sequence of the last yielded record."""
        return self._place.sequence

    @property
    def key(self) -> Key | None:
        """The identity of the file that is open; None if none is."""
        part = self._place.part
        return part.key if part is not None and self._place.is_open else None

    @property
    def _path(self) -> Path:
        """The file that is read."""
        return self.path if self._place.part is None else self._place.part.path

    @property
    def is_between(self) -> bool:
        """Whether it waits for the next file, or for its own file to reappear."""
        return self._place.is_between

    def is_removed(self) -> bool:
        """Returns whether neither the stream's file nor a rotated one exists."""
        return is_removed(self.path)

    def close(self) -> None:
        """Closes the file; the next item reopens it, even if it was renamed."""
        self._place.close()

    def items(self) -> Generator[Batch | None, None, None]:
        """Yields a batch for each chunk of the files, and None whenever there is nothing; ends when nothing more can follow.

        Raises:
            PositionLost: The data after the position cannot be found.
            BadRecord: A file is damaged, or of another format, and the policy is to fail.
            OSError: A file cannot be read now. Another call of `items` tries again.
        """
        place = self._place
        while True:
            if not place.is_open:
                if not place.open():
                    # It vanished before it was read, and may come again.
                    if not self._options.follow or self.is_removed():
                        return
                    yield None
                    continue
                self._begin_at(place.offset)
            chunk = self._next_chunk()
            if chunk:
                self.caught_up = False
                records = self._take(chunk)
                if records is not None:
                    yield self._yielded(records)
                self._refuse_excess()
            elif place.is_over():
                if (records := self._rest()) is not None:
                    yield self._yielded(records)
                if not place.next_part():
                    return
                self._discarding, self._to_discard, self._given_up = False, 0, False
                self._begin_at(0)
            elif self._opened != place.opened:
                self._begin_at(place.offset)
            else:
                yield None

    def _begin_at(self, offset: int) -> None:
        """Forgets what was read after the last record: the file that is open now is read from an offset."""
        self._pieces, self._opened = [], self._place.opened
        self._zeros = self._zeros if offset else 0
        self._at_start = offset == self._zeros

    def _next_chunk(self) -> bytes:
        """Reads the next data of the file; empty at its end, if it is damaged, or if it was overwritten."""
        if self._given_up:
            return b""
        try:
            return self._place.read()
        except Damaged as damage:
            self._give_up(damage)
            return b""

    # What was read

    def _take(self, chunk: bytes) -> Records | None:
        """Splits the data read so far into records, and leaves the incomplete rest in `pieces`."""
        pieces, lines = self._pieces, self._options.format is Format.LINES
        if self._discarding:
            return self._discard(chunk)
        if self._at_start and lines:
            chunk = self._first(chunk)
        # A line of many chunks is joined once, when its end was read.
        if pieces and lines and b"\n" not in chunk and sum(map(len, pieces)) < _LONG_LINE_BYTES:
            pieces.append(chunk)
            return None
        data = b"".join([*pieces, chunk]) if pieces else chunk
        try:
            records = split(data, self._place.offset, self._options.format)
        except BadRecord as error:
            self._refuse(data, error)
            return None
        end = 0 if records is None else records.end - self._place.offset
        rest = data[end:]
        pieces[:] = [rest] if rest else []
        if end:
            self._place.passed(data, end)
        return records

    def _first(self, chunk: bytes) -> bytes:
        """Skips what precedes the first line of a file: zeros, which no text begins with, and a byte order mark.

        A log that was truncated under a writer that does not append begins with a hole as long as the log was.
        """
        data = b"".join([*self._pieces, chunk])
        self._pieces.clear()
        text = data.lstrip(b"\0")
        self._zeros += len(data) - len(text)
        self._skip(data[: len(data) - len(text)])
        if _BYTE_ORDER_MARK.startswith(text) and text != _BYTE_ORDER_MARK:
            # Empty, or what may be the beginning of a mark.
            self._pieces.extend([text] if text else [])
            return b""
        self._at_start = False
        if self._zeros:
            log.warning(
                "skipped %d zero bytes at the beginning of %s: it was truncated while its writer did not append; let it append",
                self._zeros,
                shown(self._path),
            )
        if text.startswith(_BYTE_ORDER_MARK):
            self._skip(_BYTE_ORDER_MARK)
            return text[len(_BYTE_ORDER_MARK) :]
        return text

    def _refuse(self, data: bytes, error: BadRecord) -> None:
        """Skips a line that is far too long, up to its end.

        Raises:
            BadRecord: The policy is to fail.
        """
        self._options.bad_record(self._bad(data), BadRecord(f"{shown(self._path)}: {error}"))
        self._discarding = True
        self._pieces.clear()
        self._skip(data)

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
            f"{shown(self._path)}: the record at byte {self._place.offset} announces {size - 4} bytes, more than "
            f"{MAX_RECORD_BYTES}; it ends at byte {self._place.offset + size}, if the file is in length-prefixed format at all"
        )
        self._options.bad_record(self._bad(data), error)
        self._discarding, self._to_discard = True, size - len(data)
        self._pieces.clear()
        self._skip(data)

    def _give_up(self, damage: Damaged) -> None:
        """Skips the rest of a gzip file that cannot be decompressed.

        Raises:
            BadRecord: The policy is to fail.
        """
        data = b"".join(self._pieces)
        end = self._place.offset + len(data)
        error = BadRecord(
            f"{shown(self._path)} is damaged after decompressed byte {end} ({damage}): everything from byte "
            f"{self._place.offset} on counts as one record that cannot be sent"
        )
        self._options.bad_record(self._bad(data), error)
        self._pieces.clear()
        self._skip(data)
        self._given_up = True

    def _bad(self, data: bytes) -> Message:
        """Returns a record that cannot be sent, for the policy: its beginning, and its place."""
        where = (("file-path", os.fsencode(self._path)), ("file-offset", b"%d" % self._place.offset))
        return Message(data[:_KEPT_OF_BAD], sequence=self.sequence + len(data), headers=where)

    def _discard(self, chunk: bytes) -> Records | None:
        """Reads to the end of a skipped record."""
        if self._options.format is Format.LINES:
            end = chunk.find(b"\n") + 1
            self._discarding = not end
        else:
            end = min(len(chunk), self._to_discard)
            self._to_discard -= end
            self._discarding = self._to_discard > 0
        self._skip(chunk if self._discarding else chunk[:end])
        return None if self._discarding or not chunk[end:] else self._take(chunk[end:])

    def _skip(self, data: bytes) -> None:
        """Moves past bytes that belong to no record."""
        self._place.passed(data, len(data))
        self._place.offset += len(data)

    def _rest(self) -> Records | None:
        """Handles the rest at the end of a finished file."""
        rest = b"".join(self._pieces)
        self._pieces = []
        if not rest:
            return None
        if self._options.format is Format.LENGTH_PREFIXED:
            error = BadRecord(
                f"{shown(self._path)}: the record at byte {self._place.offset} is incomplete: the file ends "
                f"after {len(rest)} bytes of it"
            )
            self._options.bad_record(self._bad(rest), error)
            self._skip(rest)
            return None
        self._place.passed(rest, len(rest))
        return last_line(rest, self._place.offset)

    def _yielded(self, records: Records) -> Batch:
        """Converts records to a batch; they then count as read."""
        self._place.offset = records.end
        sequences = Steps(self._place.base + records.ends.first, records.ends.deltas)
        return Batch(records.values, sequences=sequences, cursor=self._place.mark().encode())

    # Monitoring

    def backlog(self) -> Backlog | None:
        """Returns the number of bytes from the last yielded record to the end of the open file's last complete record."""
        if self.caught_up:
            return Backlog(bytes=0)
        descriptor, place = self._place.descriptor(), self._place
        if descriptor is None or place.part is None:
            return None
        size = os.fstat(descriptor).st_size
        latest = self._last_end(descriptor, size)
        left = max(0, (size if latest is None else latest) - place.offset)
        return Backlog(bytes=left, latest_sequence=None if latest is None or not place.part.current else place.base + latest)

    def _last_end(self, descriptor: int, size: int) -> int | None:
        """Returns the end of the last complete record, if it can be determined without reading the file."""
        if not self._options.follow:
            return size
        if self._options.format is Format.LENGTH_PREFIXED:
            return None
        offset = self._place.offset
        start = max(offset, size - _BACKLOG_BYTES)
        at = os.pread(descriptor, size - start, start).rfind(b"\n") if size > start else -1
        if at >= 0:
            return start + at + 1
        return offset if start == offset else None
