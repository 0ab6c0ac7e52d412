"""The `file` source: every file is a partition, every line or length-prefixed record a message."""

import glob
import math
import os
import time
from collections.abc import AsyncIterator, Generator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path

from headrace.connectors._bad_records import BadRecordPolicy, BadRecords, PolicySource
from headrace.connectors._records import BadRecord, Format
from headrace.connectors.file._names import Names, partition_of, root_of, unrotated
from headrace.connectors.file._parts import Part, is_copy, part_at
from headrace.connectors.file._reader import Options, Reader
from headrace.connectors.file._turns import Turns
from headrace.connectors.file._watch import State, Watch, state_of
from headrace.sdk import CLOSE, GONE, Backlog, Batch, Close, InvalidSource, Message, Position, PositionLost

# Readers that are idle may keep so many files open.
_OPEN_FILES = 200
# How long to wait at most for a file to change, and for one that another takes the place of.
_AGAIN_SECONDS, _SOON_SECONDS = 30.0, 0.5
_END = Batch(())
# A file that has the name of a removed one is listed after so long: until then the session has seen that the name was free.
_FREE_SECONDS = 10.0
# A new query reads files whose streams are closed once they have their next turn.
_NEXT_TURN_SECONDS = 3600.0
# A change of threads costs as much as reading a third of an item.
_AT_ONCE = 4
# A look for new files takes at most this share of a core, unless it is quick.
_LOOKING_SHARE, _QUICK_SECONDS = 0.05, 0.05


@dataclass(slots=True)
class _Stream:
    """The files that are one stream.

    Attributes:
        path: The one that is or was appended to.
        rotated: Those that match the patterns, too, and that it was rotated to.
        base: The sequence to begin with, after a loss that was accepted.
    """

    path: Path
    rotated: list[Path] = field(default_factory=list)
    base: int = 0


class FileSource(PolicySource):
    """Reads files and, where asked to, goes on as they grow, and as they are rotated.

    The sequence of a message is the number of bytes from the beginning of its stream to just past its record: of its file, and
    of all that were rotated before. A file must only ever be appended to. The cursor has checksums of what was read of
    the file, so that another one is not taken for it.
    """

    connector = "file"
    version = "0.2.0"
    idle_seconds = 0.0
    takes_turns = True

    def __init__(
        self,
        name: str,
        paths: Sequence[str | os.PathLike[str]],
        format: Format = Format.LINES,
        *,
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
        """Reads files that may not exist yet, if it follows.

        Args:
            name: The source part of stream names.
            paths: Paths, or patterns as for the shell (`*`, `?`, `[...]`, and `**` for any folders).
            format: How records follow one another.
            follow: True to wait for more at the end of a file, and for new files that match; False to end there.
            names: What the partition of a file is called after.
            root: The folder that paths are relative to, for names; where not given, that before the first wildcard of a pattern.
            rotation: Whether `app.log.1` and the like are what `app.log` was before.
            rotated_seconds: How long a rotated file has to be unchanged until the next one is read.
            max_streams: How many files are read at the same time; more take turns.
            idle_seconds: How long a file has nothing new until another one gets its turn.
            bad_records: What to do with a record that cannot be taken.
            dead_letters: The folder for those that are dead letters.

        Raises:
            InvalidSource: Two files would be the same stream, or there is no file and none is waited for.
        """
        self.name = name
        self._patterns = [os.path.abspath(path) for path in paths]
        self._root = None if root is None else os.path.abspath(root)
        self._names = names
        self.bad_records = BadRecordPolicy(name, bad_records, dead_letters)
        self._format, self._follow = format, follow
        self._rotation, self._rotated_seconds = rotation, rotated_seconds
        self._streams: dict[str, _Stream] = {}
        self._partitions: dict[str, str] = {}
        self._listed: list[str] = []
        self._readers: dict[str, Reader] = {}
        self._turns = Turns(max_streams, _NEXT_TURN_SECONDS)
        self._turn_seconds = idle_seconds
        self._acknowledged: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        self._gone: set[str] = set()
        self._free: dict[str, float] = {}
        self._watch = Watch()
        self._next_look = 0.0
        self._look()
        if not self._listed and not follow:
            raise InvalidSource(f"no such file: {', '.join(str(path) for path in paths)}")

    async def partitions(self) -> Sequence[str]:
        """The files that exist now, as far as it is their turn."""
        try:
            return await self._list()
        finally:
            if not self._readers:
                self._watch.rest()

    async def acknowledged(self, partition: str, position: Position) -> None:
        """A stream may be closed once all that was read of it is in the checkpoint."""
        self._acknowledged[partition] = position.sequence
        if position.sequence >= self._ends.get(partition, math.inf):
            del self._ends[partition]
            self._turn_ended(partition)
        elif self._turns.wanted and (reader := self._readers.get(partition)) is not None:
            self._watch.wake(reader.path)

    async def read(self, partition: str, position: Position | None) -> AsyncIterator[Batch | Close | None]:
        """Yields a batch for each part of the file."""
        stream, idle_since = self._streams[partition], math.inf
        if (position.sequence if position is not None else 0) < self._acknowledged.get(partition, 0):
            self._turns.begin_again()
        reader = self._reader(partition, stream, position)
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
                if error is not None:
                    raise error
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
                    await self._watch.changed(reader.path, state, _SOON_SECONDS if soon else _AGAIN_SECONDS)
        except PositionLost:
            # Where the loss is accepted, the files begin again, and sequences must not.
            stream.base = position.sequence if position is not None else stream.base
            raise
        finally:
            self._watch.soon(items.close)
            self._watch.soon(reader.close)
            if self._readers.get(partition) is reader:
                del self._readers[partition]
            if not self._readers:
                self._watch.rest()

    async def backlog(self, partition: str) -> Backlog | None:
        """The bytes between what was yielded and the end of the last whole record."""
        reader = self._readers.get(partition)
        return None if reader is None else await self._watch.run(reader.backlog)

    async def _list(self) -> Sequence[str]:
        """Looks for files, where that is due, and says whose turn it is."""
        if time.monotonic() < self._next_look:
            return await self._watch.run(self._turns.listed, self._listed, self.streams_allowed)
        self._free_names()
        await self._watch.run(self._look)
        listed = await self._watch.run(self._turns.listed, self._listed, self.streams_allowed)
        for gone in self._streams.keys() - self._readers.keys() - set(self._listed) - set(listed):
            del self._partitions[os.fspath(self._streams.pop(gone).path)]
            self._acknowledged.pop(gone, None)
        return listed

    def _end(self, partition: str, sequence: int) -> None:
        """A stream has ended; its turn is over once it is acknowledged, for a lost session begins with all that is not."""
        if sequence <= self._acknowledged.get(partition, 0):
            self._turn_ended(partition)
        else:
            self._ends[partition] = sequence

    def _turn_ended(self, partition: str) -> None:
        """A stream has ended and is acknowledged. One that is gone makes its name free."""
        self._turns.end(partition)
        if partition in self._gone:
            self._gone.discard(partition)
            self._free[partition] = time.monotonic() + _FREE_SECONDS

    def _free_names(self) -> None:
        """Has the names of removed files be those of new ones."""
        for partition in [partition for partition, at in self._free.items() if at <= time.monotonic()]:
            del self._free[partition]
            self._acknowledged.pop(partition, None)
            if partition in self._streams:
                self._streams[partition] = _Stream(self._streams[partition].path)
            self._turns.renew(partition)

    def _is_turn_over(self, partition: str, reader: Reader, state: State, idle_since: float) -> bool:
        """Whether an idle stream should make room for another, and can: nothing of it may have to be read again."""
        if not self._turns.wanted or self._acknowledged.get(partition, 0) < reader.sequence:
            return False
        if reader.is_between and state is not None:
            return False
        changed = 0.0 if state is None else state[2] / 1e9
        return max(time.monotonic() - idle_since, time.time() - changed) >= self._turn_seconds

    def _reader(self, partition: str, stream: _Stream, position: Position | None) -> Reader:
        """Makes what reads a stream."""
        options = Options(
            self._format,
            self._follow,
            self._rotation,
            self._rotated_seconds,
            lambda message, error: self._leave_out(partition, message, error),
        )
        earlier = (part_at(path, current=False) for path in stream.rotated if not is_copy(path))
        parts: list[Part] = sorted((part for part in earlier if part is not None), key=lambda part: part.order)
        return Reader(stream.path, parts, position, stream.base, options)

    def _leave_out(self, partition: str, message: Message, error: BadRecord) -> None:
        """Does with a record that cannot be taken what the policy says.

        Raises:
            BadRecord: The policy is to fail.
        """
        if self.bad_records.what is BadRecords.FAIL:
            raise BadRecord(f"{error}; mend the file, or set bad_records to skip or dead-letter, to go on after it")
        self.bad_records.take(partition, message, error)

    def _look(self) -> None:
        """Looks which files there are."""
        began = time.monotonic()
        found: dict[str, str] = {}
        for pattern in self._patterns:
            # A file may have a name that is a pattern, too.
            literal = os.path.exists(pattern)
            if literal and os.path.isdir(pattern):
                raise InvalidSource(f"{pattern} is a folder; name the files in it: {pattern}/*")
            root = self._root or (os.path.dirname(pattern) if literal else root_of(pattern))
            for path in [pattern] if literal else sorted(glob.glob(pattern, recursive=True)):
                if path in found or (path not in self._partitions and os.path.isdir(path)):
                    continue
                found[path] = root
        known = found.keys() | self._partitions.keys()
        self._listed = list(dict.fromkeys(self._added(path, root, known) for path, root in found.items()))
        seconds = time.monotonic() - began
        self._next_look = time.monotonic() + (seconds / _LOOKING_SHARE if seconds > _QUICK_SECONDS else 0.0)

    def _added(self, path: str, root: str, known: AbstractSet[str]) -> str:
        """Adds a file to its stream; returns the partition."""
        own = unrotated(path, known) if self._rotation else path
        partition = self._partitions.get(own)
        if partition is None:
            partition = partition_of(own, root, self._names)
            if partition in self._streams:
                raise InvalidSource(
                    f"{self._streams[partition].path} and {own} would both be the stream {self.name}/{partition}; use two "
                    "sources, or name the folder that both are in as root"
                )
            self._partitions[own] = partition
            self._streams[partition] = _Stream(Path(own))
        stream = self._streams[partition]
        if path != own and Path(path) not in stream.rotated:
            stream.rotated.append(Path(path))
        return partition


def _next(reader: Reader, items: Generator[Batch | None, None, None]) -> tuple[State, list[Batch | None], Exception | None]:
    """What the path of a reader led to, then its next few items, `_END` after the last, and what it has raised after them."""
    state = state_of(reader.path)
    some: list[Batch | None] = []
    try:
        while len(some) < _AT_ONCE and (not some or (some[-1] is not None and some[-1] is not _END)):
            some.append(next(items, _END))
    except Exception as error:  # what comes before it is given first
        return state, some, error
    return state, some, None
