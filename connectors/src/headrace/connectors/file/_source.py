"""The `file` source: every file is a partition, every line or length-prefixed record a message."""

import glob
import logging
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from headrace.connectors._records import BadRecord, Format, Records, last_line, split
from headrace.sdk import Backlog, Batch, InvalidSource, Position, PositionLost, Source

log = logging.getLogger("headrace.connectors")

# A little below what the SDK takes for a whole frame, so that what is read at once becomes one frame.
_CHUNK_BYTES = 256 * 1024
_TAIL_BYTES = 64 * 1024
_LONG_LINE_BYTES = 32 << 20
_REPLACED_CHECK_SECONDS = 1.0


@dataclass(slots=True)
class _Reading:
    """A file that is being read."""

    file: BinaryIO
    offset: int
    """Just past the last record that was yielded."""
    caught_up: bool = False


class FileSource(Source):
    """Reads files and, where asked to, goes on as they grow.

    The sequence of a message is the byte offset just past its record, and so is the cursor, in decimal. A file must only ever
    be appended to. One that has become shorter than the position to go on from, or was replaced while it was read,
    has lost that position; give a new file a new name instead.
    """

    connector = "file"
    version = "0.1.0"
    idle_seconds = 0.02

    def __init__(
        self, name: str, paths: Sequence[str | os.PathLike[str]], format: Format = Format.LINES, *, follow: bool = True
    ) -> None:
        """Reads files that may not exist yet, if it follows.

        Args:
            name: The source part of stream names; a file `trades 1.csv` is the stream `name/trades_1.csv`.
            paths: Paths, or patterns as for the shell (`*`, `?`, `[...]`, and `**` for any folders).
            format: How records follow one another.
            follow: True to wait for more at the end of a file, and for new files that match; False to end there.

        Raises:
            InvalidSource: Two files would be the same stream, or there is no file and none is waited for.
        """
        self.name = name
        self._patterns = [os.fspath(path) for path in paths]
        self._format = format
        self._follow = follow
        self._files: dict[str, Path] = {}
        self._reading: dict[str, _Reading] = {}
        if not self.partitions() and not follow:
            raise InvalidSource(f"no such file: {', '.join(self._patterns)}")

    def partitions(self) -> Sequence[str]:
        """The files that exist now."""
        files: dict[str, Path] = {}
        for pattern in self._patterns:
            # A file may have a name that is a pattern, too.
            found = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern, recursive=True))
            for path in map(Path, found):
                partition = re.sub(r"[^A-Za-z0-9._-]", "_", path.name)
                other = files.setdefault(partition, path)
                if not os.path.samefile(other, path):
                    raise InvalidSource(f"{other} and {path} would both be the stream {self.name}/{partition}; use two sources")
                if path.is_dir():
                    raise InvalidSource(f"{path} is a folder; name the files in it: {path / '*'}")
        self._files = files
        return list(files)

    def read(self, partition: str, position: Position | None) -> Iterator[Batch | None]:
        """Yields a batch for each part of the file."""
        path = self._files[partition]
        start = position.sequence if position is not None else 0
        try:
            file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed below, when the generator is
        except FileNotFoundError:
            raise PositionLost(f"{path} is gone") from None
        with file:
            size = os.fstat(file.fileno()).st_size
            if size < start:
                raise PositionLost(f"{path} has {size} bytes, fewer than the {start} that were read")
            file.seek(start)
            reading = self._reading[partition] = _Reading(file, start)
            yield from self._read(path, reading)

    def _read(self, path: Path, reading: _Reading) -> Iterator[Batch | None]:
        """Yields what is in the file from `reading.offset` on."""
        pieces: list[bytes] = []
        next_check = 0.0
        while True:
            chunk = reading.file.read(_CHUNK_BYTES)
            if chunk:
                reading.caught_up = False
                records = self._take(path, reading, pieces, chunk)
                if records is not None:
                    yield self._yielded(reading, records)
            elif not self._follow:
                if records := self._rest(path, reading, b"".join(pieces)):
                    yield self._yielded(reading, records)
                return
            else:
                if time.monotonic() >= next_check:
                    next_check = time.monotonic() + _REPLACED_CHECK_SECONDS
                    _check_same(path, reading.file)
                if os.fstat(reading.file.fileno()).st_size < reading.file.tell():
                    raise PositionLost(f"{path} was cut to fewer bytes than the {reading.offset} that were read")
                reading.caught_up = True
                yield None

    def _take(self, path: Path, reading: _Reading, pieces: list[bytes], chunk: bytes) -> Records | None:
        """Splits what has been read so far into records, and leaves the incomplete rest in `pieces`."""
        # A line of many chunks is joined once, when its end has come.
        if pieces and self._format is Format.LINES and b"\n" not in chunk and sum(map(len, pieces)) < _LONG_LINE_BYTES:
            pieces.append(chunk)
            return None
        data = b"".join([*pieces, chunk])
        try:
            records = split(data, reading.offset, self._format)
        except BadRecord as error:
            raise BadRecord(f"{path}: {error}") from None
        rest = data if records is None else data[records.end - reading.offset :]
        pieces[:] = [rest] if rest else []
        return records

    def _rest(self, path: Path, reading: _Reading, rest: bytes) -> Records | None:
        """What is left at the end of a file that is not followed."""
        if not rest:
            return None
        if self._format is Format.LENGTH_PREFIXED:
            raise BadRecord(
                f"{path}: the record at byte {reading.offset} is incomplete: the file ends after {len(rest)} bytes of it"
            )
        return last_line(rest, reading.offset)

    def _yielded(self, reading: _Reading, records: Records) -> Batch:
        """Records as a batch; they count as read from now on."""
        reading.offset = records.end
        return Batch(records.values, sequences=records.ends, cursor=b"%d" % records.end)

    def backlog(self, partition: str) -> Backlog:
        """The bytes between what was yielded and the end of the last whole record."""
        reading = self._reading[partition]
        if reading.caught_up:
            return Backlog(bytes=0)
        size = os.fstat(reading.file.fileno()).st_size
        latest = self._last_end(reading, size)
        return Backlog(bytes=max(0, (size if latest is None else latest) - reading.offset), latest_sequence=latest)

    def _last_end(self, reading: _Reading, size: int) -> int | None:
        """Where the last whole record ends, if that can be told without reading the file."""
        if not self._follow:
            return size
        if self._format is Format.LENGTH_PREFIXED:
            return None
        start = max(reading.offset, size - _TAIL_BYTES)
        at = os.pread(reading.file.fileno(), size - start, start).rfind(b"\n") if size > start else -1
        if at >= 0:
            return start + at + 1
        return reading.offset if start == reading.offset else None


def _check_same(path: Path, file: BinaryIO) -> None:
    """Sees that the path still leads to the file that is being read."""
    try:
        if os.path.samestat(os.stat(path), os.fstat(file.fileno())):
            return
    except FileNotFoundError:
        # It may still be written to by whoever has it open, and what was read of it needs no path.
        return
    raise PositionLost(f"{path} is another file than the one that was read; give a new file a new name")
