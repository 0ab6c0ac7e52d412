"""Reads one stream of files, through rotations. Everything here blocks, and runs on the thread of the source."""

import os
from collections.abc import Generator, Sequence
from pathlib import Path

from headrace.connectors._records import Format, Records
from headrace.connectors.file._encoding import Encoding, last_end
from headrace.connectors.file.options import Options
from headrace.connectors.file.parts import Key, Part, is_removed
from headrace.connectors.file.place import Place
from headrace.connectors.file.splitter import Splitter
from headrace.connectors.file.unpacked import Damaged
from headrace.sdk import Backlog, Batch, Position, Steps

_BACKLOG_BYTES = 64 * 1024


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
        self._splitter = Splitter(self._place, options)
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
        place, splitter = self._place, self._splitter
        while True:
            if not place.is_open:
                if not place.open():
                    # It vanished before it was read, and may come again.
                    if not self._options.follow or self.is_removed():
                        return
                    yield None
                    continue
                self._begin()
            chunk = self._next_chunk()
            if chunk:
                self.caught_up = False
                yield from map(self._batch, splitter.take(chunk))
            elif place.is_over():
                yield from map(self._batch, splitter.rest())
                if not place.next_part():
                    return
                self._opened = place.opened
                splitter.begin_next()
            elif self._opened != place.opened:
                self._begin()
            else:
                yield None

    def _begin(self) -> None:
        """Begins with what follows the last record in the file that is open now."""
        self._opened = self._place.opened
        self._splitter.begin_at(self._place.offset)

    def _next_chunk(self) -> bytes:
        """Reads the next data of the file; empty at its end, if it is damaged, or if it was overwritten."""
        if self._splitter.has_given_up:
            return b""
        try:
            return self._place.read()
        except Damaged as damage:
            self._splitter.give_up(damage)
            return b""

    def _batch(self, records: Records) -> Batch:
        """Converts records to a batch."""
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
        offset, encoding = self._place.offset, self._place.encoding or Encoding.UTF_8
        start = max(offset, size - _BACKLOG_BYTES)
        start -= (start - offset) % encoding.unit
        end = last_end(os.pread(descriptor, size - start, start), encoding) if size > start else 0
        return start + end if end or start == offset else None
