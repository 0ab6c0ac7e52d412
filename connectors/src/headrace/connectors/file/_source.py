"""The `file` source: every file is a partition, every line or length-prefixed record a message."""

import errno
import math
import os
import time
from collections.abc import AsyncIterator, Generator, Sequence

from headrace.connectors._connector import VERSION
from headrace.connectors._records import BadRecord, Format
from headrace.connectors.bad_records import BadRecordPolicy, BadRecords, PolicySource
from headrace.connectors.file._encoding import Encoding
from headrace.connectors.file._names import Names, text_of
from headrace.connectors.file.files import Files
from headrace.connectors.file.options import Options
from headrace.connectors.file.order import at_first
from headrace.connectors.file.parts import Changed, Key, Part, is_copy, part_at
from headrace.connectors.file.reader import Reader
from headrace.connectors.file.turns import Turns
from headrace.connectors.file.watch import State, Watch, state_of
from headrace.contract.backoff import Backoff
from headrace.sdk import CLOSE, GONE, Backlog, Batch, Close, InvalidSource, Message, Position, PositionLost

# Maximum number of open files of idle readers.
_OPEN_FILES = 200
# The longest wait for a file to change, and for a replaced file, in seconds.
_AGAIN_S, _SOON_S = 30.0, 0.5
_END = Batch(())
# The delay before a file with the name of a removed one is listed, in seconds: until then, the session has noticed that the name
# was free.
_FREE_S = 10.0
# How long a new file waits for a query to read the absent log that it may have been rotated from; it may read the file alone.
_ABSENT_S = 10.0
# A new query reads the files of closed streams when they have their next turn.
_NEXT_TURN_S = 3600.0
# Switching threads costs as much as reading a third of an item.
_AT_ONCE = 4
# Looking for new files uses at most this share of a core, unless it is quick.
_LOOKING_SHARE, _QUICK_S = 0.05, 0.05


class FileSource(PolicySource):
    """Reads files and, if configured, follows them as they grow and are rotated.

    The sequence of a message is the number of bytes from the beginning of its stream to just past its record: of its file, and of
    all files that were rotated before. Files may only be appended to. The cursor has checksums of what was read of the file, so
    that another file is not mistaken for it.
    """

    connector = "file"
    version = VERSION
    idle_seconds = 0.0
    takes_turns = True

    def __init__(
        self,
        name: str,
        paths: Sequence[str | os.PathLike[str]],
        format: Format = Format.LINES,
        *,
        encoding: Encoding = Encoding.UTF_8,
        follow: bool = True,
        names: Names = Names.RELATIVE,
        root: str | os.PathLike[str] | None = None,
        rotation: bool = True,
        rotated_seconds: float = 5.0,
        max_streams: int = 500,
        idle_seconds: float = 2.0,
        bad_records: BadRecords = BadRecords.FAIL,
        dead_letters: str | os.PathLike[str] | None = None,
    ) -> None:
        """Creates a source of files, which may not exist yet if `follow` is set.

        Args:
            name: The source part of stream names.
            paths: Paths, or shell patterns (`*`, `?`, `[...]`, and `**` for any folders).
            format: The format of records.
            encoding: The encoding of files of lines without a byte order mark. Lines are sent in UTF-8.
            follow: True to wait for more data at the end of a file, and for new files; False to end there.
            names: The part of a file's path from which the name of its partition is derived.
            root: The folder that paths in names are relative to; default: the folder before the first wildcard of a pattern.
            rotation: Whether files such as `app.log.1` are earlier parts of `app.log`.
            rotated_seconds: How long a rotated file must be unchanged before the next one is read, in seconds.
            max_streams: Maximum number of files read at the same time; others take turns.
            idle_seconds: How long a file must have no new data before another one gets its turn, in seconds.
            bad_records: What to do with a record that cannot be sent.
            dead_letters: The folder for dead letters.

        Raises:
            InvalidSource: Two files would be the same stream, there is no file and `follow` is not set, or an encoding is given
                for a format that has none.
        """
        self.name = name
        self.bad_records = BadRecordPolicy(name, bad_records, dead_letters)
        if format is not Format.LINES and encoding is not Encoding.UTF_8:
            raise InvalidSource(f"encoding {encoding.value} has no effect: only files in lines format have an encoding")
        self._format, self._encoding, self._follow = format, encoding, follow
        self._rotation, self._rotated_seconds = rotation, rotated_seconds
        self._files = Files(name, paths, names, root, rotation=rotation)
        self._bases: dict[str, int] = {}
        """The sequence that a stream begins with after an accepted loss."""
        self._readers: dict[str, Reader] = {}
        self._turns = Turns(max_streams, _NEXT_TURN_S)
        self._turn_seconds = idle_seconds
        self._acknowledged: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        self._gone: set[str] = set()
        self._free: dict[str, float] = {}
        self._watch = Watch()
        self._next_look = 0.0
        self._look()
        if not self._files.listed and not follow:
            raise InvalidSource(f"no such file: {', '.join(text_of(path) for path in paths)}{self._files.why_none()}")

    async def partitions(self) -> Sequence[str]:
        """Returns the existing files whose turn it is.

        Raises:
            InvalidSource: Two files would be the same stream, or a path is a folder.
        """
        try:
            return await self._list()
        finally:
            if not self._readers:
                self._watch.rest()

    async def acknowledged(self, partition: str, position: Position) -> None:
        """Notes what is in the checkpoint: a stream may be closed once everything that was read of it is."""
        self._acknowledged[partition] = position.sequence
        if position.sequence >= self._ends.get(partition, math.inf):
            del self._ends[partition]
            self._turn_ended(partition)
        elif self._turns.wanted and (reader := self._readers.get(partition)) is not None:
            self._watch.wake(reader.path)

    async def read(self, partition: str, position: Position | None) -> AsyncIterator[Batch | Close | None]:
        """Yields a batch for each chunk of the files.

        Raises:
            PositionLost: The files no longer have the data after the position.
            BadRecord: A file is damaged, or in another format, and the policy is to fail.
        """
        if not await self._has_stream(partition, position):
            self._gone.add(partition)
            self._end(partition, 0)
            yield GONE
            return
        idle_since, troubled = math.inf, Backoff(_SOON_S, _AGAIN_S, jitter=0.0)
        if (position.sequence if position is not None else 0) < self._acknowledged.get(partition, 0):
            self._turns.begin_again()
        reader = await self._watch.run(self._reader, partition, position)
        items = reader.items()
        self._readers[partition] = reader
        try:
            while True:
                state, some, error = await self._watch.run(_next, reader, items)
                for item in some:
                    if item is _END:
                        if self._follow and await self._watch.run(reader.is_removed):
                            self._gone.add(partition)
                            self._end(partition, reader.sequence)
                            yield GONE
                            return
                        self._end(partition, reader.sequence)
                        return
                    reader.caught_up = item is None
                    yield item
                if isinstance(error, OSError) and self._follow:
                    self._cannot_read(reader, error)
                    items = reader.items()
                    yield None
                    await self._watch.changed(reader.path, state, troubled.next())
                    continue
                if error is not None:
                    raise error
                troubled.reset()
                self._files.can_read(os.fspath(reader.path))
                if some[-1] is not None:
                    idle_since = math.inf
                else:
                    idle_since = min(idle_since, time.monotonic())
                    if self._is_turn_over(partition, reader, state, idle_since):
                        self._turns.close(partition, reader.path, state)
                        yield CLOSE
                        return
                    if len(self._readers) > _OPEN_FILES:
                        await self._watch.run(reader.close)
                    soon = reader.is_between or self._turns.wanted
                    await self._watch.changed(reader.path, state, _SOON_S if soon else _AGAIN_S)
        except PositionLost:
            # If the loss is accepted, reading starts at the beginning of the files, but sequences must not start over.
            self._bases[partition] = position.sequence if position is not None else self._bases.get(partition, 0)
            raise
        finally:
            self._watch.soon(items.close)
            self._watch.soon(reader.close)
            if self._readers.get(partition) is reader:
                del self._readers[partition]
            if not self._readers:
                self._watch.rest()

    async def backlog(self, partition: str) -> Backlog | None:
        """Returns the number of bytes between the last yielded record and the end of the last complete record."""
        reader = self._readers.get(partition)
        return None if reader is None else await self._watch.run(reader.backlog)

    async def _has_stream(self, partition: str, position: Position | None) -> bool:
        """Returns whether there is anything to read; not of an absent log that was never read, nor of a rotated file of one."""
        absent = self._files.absent
        if (log := absent.log(partition)) is not None:
            if position is not None:
                await self._watch.run(self._files.join, partition, log)
            absent.answer(partition, was_read=position is not None)
        elif position is None:
            return await absent.is_own(partition, _ABSENT_S)
        else:
            absent.begin(partition)
        return partition in self._files.streams

    async def _list(self) -> Sequence[str]:
        """Looks for files, if that is due, and returns the files whose turn it is."""
        if time.monotonic() < self._next_look:
            return await self._watch.run(self._turns.listed, self._files.listed, self.streams_allowed)
        self._free_names()
        await self._watch.run(self._look)
        listed = await self._watch.run(self._turns.listed, self._files.listed, self.streams_allowed)
        for gone in self._files.streams.keys() - self._readers.keys() - set(self._files.listed) - set(listed):
            self._files.forget(gone)
            self._bases.pop(gone, None)
            self._acknowledged.pop(gone, None)
        return listed

    def _end(self, partition: str, sequence: int) -> None:
        """Notes that a stream has ended; its turn ends once it is acknowledged, because a lost session repeats the rest."""
        if sequence <= self._acknowledged.get(partition, 0):
            self._turn_ended(partition)
        else:
            self._ends[partition] = sequence

    def _turn_ended(self, partition: str) -> None:
        """Ends the turn of a stream that has ended and is acknowledged. If it is gone, its name becomes free."""
        self._turns.end(partition)
        if partition in self._gone:
            self._gone.discard(partition)
            self._free[partition] = time.monotonic() + _FREE_S

    def _free_names(self) -> None:
        """Makes the names of removed files available for new files."""
        for partition in [partition for partition, at in self._free.items() if at <= time.monotonic()]:
            del self._free[partition]
            self._acknowledged.pop(partition, None)
            self._bases.pop(partition, None)
            self._files.renew(partition)
            self._turns.renew(partition)

    def _is_turn_over(self, partition: str, reader: Reader, state: State, idle_since: float) -> bool:
        """Returns whether an idle stream should and can make room for another: no part of it may need to be read again."""
        if not self._turns.wanted or self._acknowledged.get(partition, 0) < reader.sequence:
            return False
        if reader.is_between and state is not None:
            return False
        changed = 0.0 if state is None else state[2] / 1e9
        return max(time.monotonic() - idle_since, time.time() - changed) >= self._turn_seconds

    def _reader(self, partition: str, position: Position | None) -> Reader:
        """Creates the reader of a stream."""
        options = Options(
            self._format,
            self._follow,
            self._rotation,
            self._rotated_seconds,
            lambda message, error: self._leave_out(partition, message, error),
            self._encoding,
            self._files.moved,
            lambda key: any(reader.key == key for name, reader in list(self._readers.items()) if name != partition),
        )
        stream = self._files.streams[partition]
        earlier = (part_at(path, current=False, base=stream.path.name) for path in stream.rotated if not is_copy(path))
        own = part_at(stream.path, current=True)
        # Each file once, by its identity.
        parts: dict[Key, Part] = {part.key: part for part in earlier if part is not None and (own is None or part.key != own.key)}
        return Reader(stream.path, at_first(list(parts.values())), position, self._bases.get(partition, 0), options)

    def _cannot_read(self, reader: Reader, error: OSError) -> None:
        """Names a file that cannot be read now, once. Its stream tries again, and the others are read meanwhile."""
        if error.errno == errno.ESTALE:
            # Its server has lost it. Any other open file is kept: it may have been removed or replaced meanwhile.
            self._watch.soon(reader.close)
        # That a file was replaced between two looks at it is nothing to report.
        if not isinstance(error, Changed | FileNotFoundError):
            self._files.cannot_read(os.fspath(reader.path), error)

    def _leave_out(self, partition: str, message: Message, error: BadRecord) -> None:
        """Applies the policy to a record that cannot be sent.

        Raises:
            BadRecord: The policy is to fail.
        """
        if self.bad_records.what is BadRecords.FAIL:
            raise BadRecord(f"{error}; repair the file, or set bad_records to skip or dead-letter to continue after it")
        self.bad_records.take(partition, message, error)

    def _look(self) -> None:
        """Lists the existing files."""
        began = time.monotonic()
        self._files.look({reader.key: name for name, reader in list(self._readers.items()) if reader.key is not None})
        seconds = time.monotonic() - began
        self._next_look = time.monotonic() + (seconds / _LOOKING_SHARE if seconds > _QUICK_S else 0.0)


def _next(reader: Reader, items: Generator[Batch | None, None, None]) -> tuple[State, list[Batch | None], Exception | None]:
    """Returns the state of a reader's path, its next few items, `_END` after the last, and the exception raised after them."""
    state = state_of(reader.path)
    some: list[Batch | None] = []
    try:
        while len(some) < _AT_ONCE and (not some or (some[-1] is not None and some[-1] is not _END)):
            some.append(next(items, _END))
    except Exception as error:  # the items before it are yielded first
        return state, some, error
    return state, some, None
