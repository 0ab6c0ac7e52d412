"""A place in the files of one stream: opens the right file, and follows it through rotations. Everything here blocks."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from headrace.connectors._records import Format
from headrace.connectors.file._encoding import Encoding, marked
from headrace.connectors.file._names import is_packed, text_of
from headrace.connectors.file.likeness import begins_with, shares_first_line
from headrace.connectors.file.mark import Mark, Seen, checksum, decoded, seen_of
from headrace.connectors.file.open_file import OpenFile
from headrace.connectors.file.options import Options
from headrace.connectors.file.order import SEEN_FILES, later, left_out, ordered, unseen
from headrace.connectors.file.parts import Part, all_parts, is_removed, key_of, part_at
from headrace.connectors.file.recognition import copy_of, distrust, fits, part_of, size_of
from headrace.sdk import Position, PositionLost

# The clock of a file system may be coarse.
_TICK_NS = 100_000_000


class Place:
    """The open file of a stream, and how far it was read."""

    def __init__(self, path: Path, earlier: Sequence[Part], position: Position | None, base: int, options: Options) -> None:
        """Creates the place, without opening a file.

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
        self._file: OpenFile | None = None
        self.part: Part | None = None
        self.opened = 0
        """How often a file was opened: after each time, what was read beyond `offset` is read again."""
        self.base = base
        self.offset = 0
        """The number of bytes of the file that were read and belong to complete records."""
        self.encoding: Encoding | None = None
        """The encoding of its lines; at its beginning the encoding of the file before. None if it is unknown."""
        self._seen: tuple[Seen, ...] | None = ()
        self._states = (0, 0, 0)
        """When the file and its folder had changed, and when that was looked at, in nanoseconds."""

    @property
    def sequence(self) -> int:
        """The sequence of the last complete record."""
        return self.base + self.offset

    @property
    def is_open(self) -> bool:
        """Whether a file is open."""
        return self._file is not None and self._file.is_open

    @property
    def is_between(self) -> bool:
        """Whether it waits for the next file, or for its own file to reappear."""
        return self.part is None or not self.part.current or not self.path.exists()

    @property
    def head(self) -> bytes:
        """The first bytes of the file that were read."""
        assert self._file is not None
        return self._file.head

    def close(self) -> None:
        """Closes the file; `open` reopens it, even if it was renamed."""
        if self._file is not None:
            self._file.close()

    def open(self) -> bool:
        """Opens the file in which reading begins or continues; False if the stream has no file yet.

        Raises:
            PositionLost: It cannot be found.
            OSError: It cannot be opened now.
        """
        if self.part is not None:
            self._find(self.mark(), self.sequence)
            return True
        if self._position is None:
            return self._open_first()
        mark = decoded(self._position.cursor)
        if mark is not None:
            self._seen = mark.seen
            self._find(mark, self._position.sequence)
        else:
            self._seen = None
            self._find_by_size(self._position.sequence)
        return True

    def _open_first(self) -> bool:
        own = part_at(self.path, current=True)
        first = next(iter(self._earlier), own)
        if first is None:
            return False
        wanted = {part.key for part in (*self._earlier, own) if part is not None}
        self._seen = left_out([part for part in self._parts() if part.key not in wanted])
        self._open(first, 0)
        return True

    def _open(self, part: Part, offset: int) -> OpenFile:
        """Continues in a file, just past what was read of it."""
        self.close()
        self._file = OpenFile(part, offset, waits_for_rest=self._options.follow)
        self.part, self.offset = part, offset
        self._states = part.mtime_ns, _changed_at(self.path.parent), time.time_ns()
        self.opened += 1
        return self._file

    def _find(self, mark: Mark, sequence: int) -> None:
        """Opens the file of a mark, even if it was renamed, or a later file if the sequence is in that one.

        Raises:
            PositionLost: It cannot be found.
        """
        self.encoding = mark.encoding
        own = part_at(self.path, current=True)
        if own is not None and own.inode == mark.inode and fits(own, mark) and sequence - mark.base <= size_of(own):
            self.base, before = mark.base, None if self.part is None else self._states
            head = self._open(own, sequence - mark.base).head
            if self._options.rotation and (before is None or _both_differ(before, self._states)):
                distrust(own, mark, head, self._parts(), is_open=False)
            return
        parts = self._parts()
        part = part_of(mark, parts, self._moved)
        if part is None:
            raise PositionLost(
                f"{text_of(self.path)} is not the file that was read up to byte {mark.offset}, and no rotated file next to it is "
                "that file"
            )
        self.base, offset, seen = mark.base, sequence - mark.base, self._seen
        following = later(parts, part, seen) if part in parts else []
        for each in (part, *following):
            size = size_of(each)
            if offset <= size:
                self._seen = seen
                self._open(each, offset)
                return
            seen = None if seen is None else (*seen, *left_out([each]))[-SEEN_FILES:]
            self.base += size
            offset -= size
            self.encoding = None
        raise PositionLost(f"{text_of(self.path)} has fewer bytes than the {offset} that were read")

    def _moved(self) -> Path | None:
        """Returns where the file is that was open, if it was given a name that is no rotation of its own."""
        return None if self.part is None else self._options.moved(self.part.key)

    def _find_by_size(self, offset: int) -> None:
        """Continues at an offset without a mark: only the size indicates whether it is the same file.

        Raises:
            PositionLost: It is another file.
        """
        part = part_at(self.path, current=True)
        if part is None:
            raise PositionLost(f"{text_of(self.path)} does not exist")
        size = size_of(part)
        if size < offset:
            raise PositionLost(f"{text_of(self.path)} has {size} bytes, fewer than the {offset} that were read")
        self.base = 0
        file = self._open(part, offset)
        unit = (marked(file.head) or self._options.encoding).unit
        if self._options.format is Format.LINES and offset not in (0, size) and b"\n" not in file.tail[-unit:]:
            raise PositionLost(f"{text_of(self.path)} is not the file that was read: no line ends at byte {offset}")

    def next_part(self) -> bool:
        """Opens the next file; False if there is none."""
        assert self._file is not None
        assert self.part is not None
        if self.part.current:
            return False
        following = self._later()
        if not following:
            return False
        before, seen = self.offset, self._seen
        done = [] if not before else [seen_of(self.part.inode, before, self._file.head, self._file.tail)]
        self._open(following[0], 0)
        self.base += before
        self._seen = None if seen is None else (*seen, *done)[-SEEN_FILES:]
        return True

    def _later(self) -> list[Part]:
        """Returns the files after the open one, oldest first."""
        assert self.part is not None
        if not self._options.follow:
            keys = [part.key for part in self._earlier]
            return [*self._earlier[keys.index(self.part.key) + 1 :], *self._own()] if self.part.key in keys else self._own()
        parts = self._parts()
        at = next((part for part in parts if part.key == self.part.key and not part.current), None)
        if at is None:
            # It may have been compressed, or removed, while it was read.
            mark = self.mark()
            at = next((part for part in ordered(parts) if not part.current and self.offset and fits(part, mark)), None)
        return later(parts, at, self._seen)

    def _parts(self) -> list[Part]:
        """Returns the current files of the stream."""
        return all_parts(self.path) if self._options.rotation else self._own()

    def _own(self) -> list[Part]:
        """Returns the file at the stream's own path."""
        part = part_at(self.path, current=True)
        return [] if part is None else [part]

    # Whether there is more

    def read(self) -> bytes:
        """Reads the next data of the file; empty at its end, or if it was overwritten.

        Raises:
            Damaged: The rest of the file cannot be decompressed.
        """
        assert self._file is not None
        return self._file.read(self._options.rotated_seconds)

    def is_over(self) -> bool:
        """Returns whether the open file is finished; finds out whether it was renamed.

        Raises:
            PositionLost: The data that was read, or the data after it, is no longer there.
        """
        assert self._file is not None
        assert self.part is not None
        if not self._options.follow:
            return True
        if is_packed(self.part.path):
            return not self._file.is_cut_short and bool(self._later())
        stat = self._file.stat()
        if self._file.is_overwritten(stat.st_size):
            self._go_to_copy(stat.st_size)
            return False
        if self.part.current:
            now = part_at(self.path, current=True)
            if now is None:
                # A process that has the file open may still write to it after it was removed.
                return stat.st_nlink == 0 and self._has_not_grown(stat) and is_removed(self.path)
            if now.key == key_of(stat):
                self._distrust(now)
                return False
            if not self._is_replaced(stat, now):
                return False
            self.part = Part(self.path, key_of(stat), stat.st_size, stat.st_mtime_ns, current=False)
        # A rotated file has a successor, and has not grown for a while: its writer may rotate late.
        return self._has_not_grown(stat) and bool(self._later())

    def _is_replaced(self, stat: os.stat_result, now: Part) -> bool:
        """Returns whether another file at the path of the open one is the next; False as long as it is too early to tell.

        Raises:
            PositionLost: It may contain the same records again.
        """
        assert self._file is not None
        mark = self.mark()
        if self._options.rotation and any(
            not part.current and (part.key == key_of(stat) or (self.offset and fits(part, mark))) for part in self._parts()
        ):
            return True
        if begins_with(now, self._file.descriptor, stat.st_size):
            self._open(now, self.offset)
            return False
        if not self._options.rotation:
            raise PositionLost(f"{text_of(self.path)} is not the file that was read; give a new file a new name")
        if stat.st_nlink:
            # Logs whose names were swapped are read on, each in its stream.
            return not self._options.is_read_elsewhere(now.key)
        shares = shares_first_line(now, self._file.descriptor, stat.st_size, self.encoding)
        if shares:
            raise PositionLost(
                f"{text_of(self.path)} is not the file that was read, and its first line is in that one, too, so it may contain "
                "the same records again; give a new file a new name"
            )
        return shares is not None and self._has_not_grown(stat)

    def _distrust(self, now: Part) -> None:
        """Looks whether a file that was written to was copied and truncated unnoticed, because it has the same contents again.

        Raises:
            PositionLost: That is unknown.
        """
        assert self._file is not None
        state = now.mtime_ns, _changed_at(self.path.parent), time.time_ns()
        before, self._states = self._states, state
        if not self._options.rotation or not _both_differ(before, state):
            return
        parts = self._parts()
        if now.size == 0 and self._seen is not None:
            # Only the copies contain what was written, copied and truncated between two looks.
            rotated = [part for part in parts if not part.current]
            if new := unseen(rotated, rotated, self._seen):
                self._open(new[0], 0)
        else:
            distrust(now, self.mark(), self._file.head, parts, is_open=True)

    def _has_not_grown(self, stat: os.stat_result) -> bool:
        """Returns whether the open file has been unchanged for `rotated_seconds`."""
        assert self._file is not None
        return self._file.has_not_grown(stat, self._options.rotated_seconds)

    def _go_to_copy(self, size: int) -> None:
        """Continues in the copy of a truncated file.

        Raises:
            PositionLost: There is no copy.
        """
        found = copy_of(self.mark(), self._parts())
        if found is None:
            raise PositionLost(
                f"{text_of(self.path)} was truncated to {size} bytes, or overwritten, after {self.offset} were read, and no file "
                "next to it is its copy"
            )
        self._open(found, self.offset)

    # What was read

    def passed(self, data: bytes, end: int) -> None:
        """Notes the bytes before `end` as read, so that the file can be recognised."""
        assert self._file is not None
        self._file.passed(data, end)

    def mark(self) -> Mark:
        """Returns the mark of the current place."""
        assert self._file is not None
        assert self.part is not None
        head, tail = self._file.head, self._file.tail
        encoding = self.encoding if self.encoding is not None and self.encoding.unit > 1 else None
        return Mark(self.base, self.offset, self.part.inode, len(head), checksum(head), checksum(tail), self._seen, encoding)

    def descriptor(self) -> int | None:
        """Returns the descriptor of the open file; None if there is none, or it is compressed."""
        if self._file is None or not self._file.is_open or self.part is None or is_packed(self.part.path):
            return None
        return self._file.descriptor


def _changed_at(folder: Path) -> int:
    """Returns when names in a folder were last added or removed, in nanoseconds; 0 if that is unknown."""
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def _both_differ(before: tuple[int, int, int], now: tuple[int, int, int]) -> bool:
    """Returns whether a file may have been written to, and names added to its folder or removed.

    Times have ticks: what changes just after a look may have the time that was seen.
    """
    latest = before[2] - _TICK_NS
    return (before[0] != now[0] or before[0] > latest) and (before[1] != now[1] or before[1] > latest)
