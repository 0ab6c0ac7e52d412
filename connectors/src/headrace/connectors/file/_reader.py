"""Reads one stream of files, through rotations. Everything here blocks, and runs on the thread of the source."""

import contextlib
import os
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from headrace.connectors._records import MAX_RECORD_BYTES, BadRecord, Format, Records, excess, last_line, split
from headrace.connectors.file._gzip import Damaged
from headrace.connectors.file._mark import HEAD_BYTES, TAIL_BYTES, Mark, checksum, decoded
from headrace.connectors.file._names import is_packed, is_rotation
from headrace.connectors.file._parts import Part, all_parts, part_at
from headrace.sdk import Backlog, Batch, Message, Position, PositionLost, Steps

# A little below the SDK's frame size, so that what is read together becomes one frame.
_CHUNK_BYTES = 256 * 1024
_BACKLOG_BYTES = 64 * 1024
_LONG_LINE_BYTES = 32 << 20
_KEPT_OF_BAD = 64 * 1024


@dataclass(frozen=True, slots=True)
class Options:
    """How files are read.

    Attributes:
        format: The format of records.
        follow: Whether to wait for more data at the end.
        rotation: Whether a stream continues in the next file once its file was rotated.
        rotated_seconds: How long a rotated file must be unchanged before the next one is read, in seconds.
        bad_record: Called with a record that cannot be sent; raises if that ends the connector.
    """

    format: Format
    follow: bool
    rotation: bool
    rotated_seconds: float
    bad_record: Callable[[Message, BadRecord], None]


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
        self._earlier = earlier
        self._position = position
        self._options = options
        self._file: BinaryIO | None = None
        self._part: Part
        self._base = base
        self._offset = 0
        self._head = b""
        self._tail = b""
        self._pieces: list[bytes] = []
        self._discarding = False
        self._to_discard = 0
        self._given_up = False
        self._cut_short = False
        self._unchanged: tuple[int, float] = (-1, 0.0)
        self.caught_up = False
        """Whether the last yielded item was None; set by the caller that yields it."""

    @property
    def sequence(self) -> int:
        """The sequence of the last yielded record."""
        return self._base + self._offset

    @property
    def is_between(self) -> bool:
        """Whether it waits for the next file, or for its own file to reappear."""
        return not self._part.current or not self.path.exists()

    def close(self) -> None:
        """Closes the file; the next item reopens it, even if it was renamed."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def items(self) -> Generator[Batch | None, None, None]:
        """Yields a batch for each chunk of the files, and None whenever there is nothing; ends when nothing more can follow.

        Raises:
            PositionLost: The data after the position cannot be found.
            BadRecord: A file is damaged, or of another format, and the policy is to fail.
        """
        self._begin()
        while True:
            if self._file is None:
                self._find(self._mark(), self.sequence)
            chunk = self._next_chunk()
            if chunk:
                self.caught_up = False
                records = self._take(chunk)
                if records is not None:
                    yield self._yielded(records)
                self._refuse_excess()
            elif self._is_over():
                if (records := self._rest()) is not None:
                    yield self._yielded(records)
                if not self._next_part():
                    return
            else:
                yield None

    # Where to read

    def _begin(self) -> None:
        """Opens the first file."""
        if self._position is None:
            first = next(iter(self._earlier), None) or part_at(self.path, current=True)
            if first is None:
                raise PositionLost(f"{self.path} does not exist")
            self._open(first, 0)
            return
        mark = decoded(self._position.cursor)
        if mark is not None:
            self._find(mark, self._position.sequence)
        else:
            self._find_by_size(self._position.sequence)

    def _open(self, part: Part, offset: int) -> None:
        """Continues in a file, just past what was read of it."""
        self.close()
        file = part.open()
        self._file, self._part, self._offset = file, part, offset
        self._head = file.read(min(HEAD_BYTES, offset))
        file.seek(max(0, offset - TAIL_BYTES))
        self._tail = file.read(min(TAIL_BYTES, offset))
        self._pieces = []
        self._unchanged = (-1, 0.0)

    def _find(self, mark: Mark, sequence: int) -> None:
        """Opens the file of a mark, even if it was renamed, or a later file if the sequence is in that one.

        Raises:
            PositionLost: It cannot be found.
        """
        own = part_at(self.path, current=True)
        if own is not None and own.inode == mark.inode and _fits(own, mark) and sequence - mark.base <= _size(own):
            self._base = mark.base
            self._open(own, sequence - mark.base)
            return
        parts = self._parts()
        # The file with the same inode is the most likely, and then the newest.
        for part in sorted(parts, key=lambda part: (part.inode != mark.inode, [-parts.index(part)])):
            if _fits(part, mark):
                break
        else:
            raise PositionLost(
                f"{self.path} is not the file that was read up to byte {mark.offset}, and no rotated file next to it is that file"
            )
        self._base = mark.base
        offset = sequence - self._base
        for later in parts[parts.index(part) :]:
            size = _size(later)
            if offset <= size:
                self._open(later, offset)
                return
            self._base += size
            offset -= size
        raise PositionLost(f"{self.path} has fewer bytes than the {offset} that were read")

    def _find_by_size(self, offset: int) -> None:
        """Continues at an offset without a mark: only the size indicates whether it is the same file.

        Raises:
            PositionLost: It is another file.
        """
        part = part_at(self.path, current=True)
        if part is None:
            raise PositionLost(f"{self.path} does not exist")
        size = _size(part)
        if size < offset:
            raise PositionLost(f"{self.path} has {size} bytes, fewer than the {offset} that were read")
        self._base = 0
        self._open(part, offset)
        if self._options.format is Format.LINES and offset not in (0, size) and not self._tail.endswith(b"\n"):
            raise PositionLost(f"{self.path} is not the file that was read: no line ends at byte {offset}")

    def _next_part(self) -> bool:
        """Opens the next file; False if there is none."""
        assert self._file is not None
        if self._part.current:
            return False
        later = self._later()
        if not later:
            return False
        self._base += self._offset
        self._open(later[0], 0)
        self._discarding, self._to_discard, self._given_up = False, 0, False
        return True

    def _later(self) -> list[Part]:
        """Returns the files after the open one, oldest first."""
        parts = self._parts() if self._options.follow else [*self._earlier, *self._own()]
        places = [place for place, part in enumerate(parts) if part.inode == self._part.inode]
        return parts[places[0] + 1 :] if places else [part for part in parts if part.order > self._part.order]

    def _parts(self) -> list[Part]:
        """Returns the current files of the stream, oldest first."""
        return all_parts(self.path) if self._options.rotation else self._own()

    def _own(self) -> list[Part]:
        """Returns the file at the stream's own path."""
        part = part_at(self.path, current=True)
        return [] if part is None else [part]

    # Whether there is more

    def _next_chunk(self) -> bytes:
        """Reads the next data of the file; empty at its end, if it is damaged, or if it was overwritten."""
        assert self._file is not None
        self._cut_short = False
        if self._given_up:
            return b""
        try:
            chunk = self._file.read(_CHUNK_BYTES)
        except Damaged as damage:
            # A file that is being written also ends too early until it is complete.
            self._cut_short = self._options.follow and damage.cut_short and not self._has_not_grown(os.fstat(self._file.fileno()))
            if not self._cut_short:
                self._give_up(damage)
            return b""
        # A file that was truncated and has grown again may be as long as before, but begins differently.
        return chunk if chunk and self._is_same() else b""

    def _is_same(self) -> bool:
        """Returns whether the open file still begins with the data that was read."""
        if is_packed(self._part.path) or not self._head:
            return True
        assert self._file is not None
        return os.pread(self._file.fileno(), len(self._head), 0) == self._head

    def _is_over(self) -> bool:
        """Returns whether the open file is finished; finds out whether it was renamed."""
        assert self._file is not None
        if not self._options.follow:
            return True
        if is_packed(self._part.path):
            return not self._cut_short and bool(self._later())
        stat = os.fstat(self._file.fileno())
        if stat.st_size < self._file.tell() or not self._is_same():
            self._go_to_copy(stat.st_size)
            return False
        if self._part.current:
            now = part_at(self.path, current=True)
            if now is None:
                # A removed file may still be written to by a process that has it open.
                return stat.st_nlink == 0 and self._has_not_grown(stat) and self.is_removed()
            if now.inode == stat.st_ino:
                return False
            if not self._options.rotation or stat.st_nlink == 0:
                # A new file that was renamed to this path may contain the same records again.
                raise PositionLost(f"{self.path} is not the file that was read; give a new file a new name")
            self._part = Part(self.path, stat.st_ino, stat.st_mtime_ns, current=False)
        return self._is_left_alone(stat)

    def _is_left_alone(self, stat: os.stat_result) -> bool:
        """Returns whether a rotated file has a successor, and has not grown for a while: its writer may rotate late."""
        return self._has_not_grown(stat) and bool(self._later())

    def _has_not_grown(self, stat: os.stat_result) -> bool:
        """Returns whether a file has been unchanged for `rotated_seconds`."""
        now = time.monotonic()
        if self._unchanged[0] != stat.st_size:
            self._unchanged = stat.st_size, now
        return max(now - self._unchanged[1], time.time() - stat.st_mtime) >= self._options.rotated_seconds

    def is_removed(self) -> bool:
        """Returns whether neither the stream's file nor a rotated one exists.

        False if its folder is missing, because that is inconclusive.
        """
        try:
            with os.scandir(self.path.parent) as entries:
                return not any(entry.name == self.path.name or is_rotation(entry.name, self.path.name) for entry in entries)
        except OSError:
            return False

    def _go_to_copy(self, size: int) -> None:
        """Continues in the copy of a truncated file.

        Raises:
            PositionLost: There is no copy.
        """
        mark = self._mark()
        copies = [part for part in self._parts() if not part.current and _fits(part, mark)]
        if not copies:
            raise PositionLost(
                f"{self.path} was truncated to {size} bytes after {self._offset} were read, and no file next to it is its copy"
            )
        self._open(copies[-1], self._offset)

    # What was read

    def _take(self, chunk: bytes) -> Records | None:
        """Splits the data read so far into records, and leaves the incomplete rest in `pieces`."""
        pieces = self._pieces
        if self._discarding:
            return self._discard(chunk)
        # A line of many chunks is joined once, when its end was read.
        if pieces and self._options.format is Format.LINES and b"\n" not in chunk and sum(map(len, pieces)) < _LONG_LINE_BYTES:
            pieces.append(chunk)
            return None
        data = b"".join([*pieces, chunk]) if pieces else chunk
        try:
            records = split(data, self._offset, self._options.format)
        except BadRecord as error:
            self._refuse(data, error)
            return None
        end = 0 if records is None else records.end - self._offset
        rest = data[end:]
        pieces[:] = [rest] if rest else []
        if end:
            self._passed(data, end)
        return records

    def _passed(self, data: bytes, end: int) -> None:
        """Notes the data that was read, so that the file can be recognised."""
        if len(self._head) < HEAD_BYTES:
            self._head += data[: min(end, HEAD_BYTES - len(self._head))]
        self._tail = (self._tail + data[max(0, end - TAIL_BYTES) : end])[-TAIL_BYTES:]

    def _refuse(self, data: bytes, error: BadRecord) -> None:
        """Skips a line that is far too long, up to its end.

        Raises:
            BadRecord: The policy is to fail.
        """
        self._options.bad_record(self._bad(data), BadRecord(f"{self._part.path}: {error}"))
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
            f"{self._part.path}: the record at byte {self._offset} announces {size - 4} bytes, more than "
            f"{MAX_RECORD_BYTES}; it ends at byte {self._offset + size}, if the file is in length-prefixed format at all"
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
        end = self._offset + len(data)
        error = BadRecord(
            f"{self._part.path} is damaged after decompressed byte {end} ({damage}): everything from byte {self._offset} on "
            "counts as one record that cannot be sent"
        )
        self._options.bad_record(self._bad(data), error)
        self._pieces.clear()
        self._skip(data)
        self._given_up = True

    def _bad(self, data: bytes) -> Message:
        """Returns a record that cannot be sent, for the policy: its beginning, and its place."""
        where = (("file-path", os.fsencode(self._part.path)), ("file-offset", b"%d" % self._offset))
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
        self._passed(data, len(data))
        self._offset += len(data)

    def _rest(self) -> Records | None:
        """Handles the rest at the end of a finished file."""
        rest = b"".join(self._pieces)
        self._pieces = []
        if not rest:
            return None
        if self._options.format is Format.LENGTH_PREFIXED:
            error = BadRecord(
                f"{self._part.path}: the record at byte {self._offset} is incomplete: the file ends after {len(rest)} bytes of it"
            )
            self._options.bad_record(self._bad(rest), error)
            self._skip(rest)
            return None
        self._passed(rest, len(rest))
        return last_line(rest, self._offset)

    def _yielded(self, records: Records) -> Batch:
        """Converts records to a batch; they then count as read."""
        self._offset = records.end
        sequences = Steps(self._base + records.ends.first, records.ends.deltas)
        return Batch(records.values, sequences=sequences, cursor=self._mark().encode())

    def _mark(self) -> Mark:
        """Returns the mark of the current place."""
        return Mark(self._base, self._offset, self._part.inode, len(self._head), checksum(self._head), checksum(self._tail))

    # Monitoring

    def backlog(self) -> Backlog | None:
        """Returns the number of bytes from the last yielded record to the end of the open file's last complete record."""
        if self.caught_up:
            return Backlog(bytes=0)
        if self._file is None or is_packed(self._part.path):
            return None
        size = os.fstat(self._file.fileno()).st_size
        latest = self._last_end(self._file, size)
        left = max(0, (size if latest is None else latest) - self._offset)
        return Backlog(bytes=left, latest_sequence=None if latest is None or not self._part.current else self._base + latest)

    def _last_end(self, file: BinaryIO, size: int) -> int | None:
        """Returns the end of the last complete record, if it can be determined without reading the file."""
        if not self._options.follow:
            return size
        if self._options.format is Format.LENGTH_PREFIXED:
            return None
        start = max(self._offset, size - _BACKLOG_BYTES)
        at = os.pread(file.fileno(), size - start, start).rfind(b"\n") if size > start else -1
        if at >= 0:
            return start + at + 1
        return self._offset if start == self._offset else None


def _fits(part: Part, mark: Mark) -> bool:
    """Returns whether a mark belongs to a file."""
    with contextlib.suppress(OSError), part.open() as file:
        return mark.fits(file)
    return False


def _size(part: Part) -> int:
    """Returns the size of a file, in decompressed bytes."""
    if not is_packed(part.path):
        return part.path.stat().st_size
    size = 0
    # Damaged data does not count, because it is not read.
    with contextlib.suppress(Damaged), part.open() as file:
        while chunk := file.read(1 << 20):
            size += len(chunk)
    return size
