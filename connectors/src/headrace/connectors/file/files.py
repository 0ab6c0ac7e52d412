"""Which files there are, and which stream each belongs to: every file once, whatever it is called."""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.connectors.file._names import Names, bases, partition_of, root_of, text_of, unrotated
from headrace.connectors.file.absent import AbsentLog, AbsentLogs
from headrace.connectors.file.listing import Found, file_at, matching, may_match, may_read
from headrace.connectors.file.parts import Key, key_of
from headrace.sdk import InvalidSource

log = logging.getLogger("headrace.connectors")


@dataclass(slots=True)
class Stream:
    """The files of a stream.

    Attributes:
        path: The file that is or was appended to.
        rotated: The files that it was rotated to and that also match the patterns.
    """

    path: Path
    rotated: list[Path] = field(default_factory=list)


class Files:
    """The streams of a source, by the files that its patterns match."""

    def __init__(
        self,
        source: str,
        paths: Sequence[str | os.PathLike[str]],
        names: Names,
        root: str | os.PathLike[str] | None,
        *,
        rotation: bool,
    ) -> None:
        """Creates it, without looking.

        Args:
            source: The source part of stream names.
            paths: Paths or patterns.
            names: The part of a file's path from which the name of its partition is derived.
            root: The folder that paths in names are relative to.
            rotation: Whether rotated files belong to the stream of the file that they were.
        """
        self._source = source
        self._patterns = [os.path.abspath(os.fspath(path)) for path in paths]
        self._names = names
        self._root = None if root is None else os.path.abspath(root)
        self._rotation = rotation
        self.streams: dict[str, Stream] = {}
        """By partition, also of removed files that are still read."""
        self.listed: list[str] = []
        """The partitions of the files that exist, and of absent logs."""
        self.absent = AbsentLogs()
        self._partitions: dict[str, str] = {}
        self._left_out: dict[str, str] = {}
        self._now_left_out: set[str] = set()
        self._troubled: dict[str, str] = {}
        self._moved: dict[Key, tuple[str, str]] = {}
        self._has_looked = False

    def look(self, open_files: Mapping[Key, str]) -> None:
        """Lists the files that exist.

        Args:
            open_files: The partitions that read a file now, by its identity.

        Raises:
            InvalidSource: A path is a folder, or two files would be the same stream; only the first time.
        """
        self._now_left_out = set()
        found, roots = self._matches()
        known = found.keys() | self._partitions.keys()
        # A file that is a stream already stays one.
        plain = found.keys() if not self._rotation else self._partitions.keys()
        own_of = {path: unrotated(path, known) for path in found if path not in plain}
        keys = {file.key for file in found.values()}
        owners = self._owners(found, own_of) if len(keys) < len(found) else {}
        watched = open_files.keys() | self._moved.keys()
        listed: dict[str, None] = {}
        new: set[str] = set()
        others: list[tuple[str, str]] = []
        for path, file in found.items():
            own = own_of.get(path, path)
            if own == path and owners.get(file.key, path) != path:
                self.leave_out(path, f"it is the same file as {text_of(owners[file.key])}", quiet=True)
                others.append((path, owners[file.key]))
            elif file.key not in watched or not self._is_moved(file, own, open_files):
                root, is_new = roots.get(path, ""), own not in self._partitions
                partition = self._partitions.get(path) or self._partition(own, root, path)
                if partition is not None:
                    if is_new:
                        new.add(own)
                        self._ask(own, root, partition)
                    listed[partition] = None
        for path, own in others:
            # A file of several names may have been read under any of them.
            if own in new:
                self._ask_for(path, roots.get(path, ""), self._partitions[own])
        self._moved = {key: moved for key, moved in self._moved.items() if key in keys or key in open_files}
        self.listed = list(dict.fromkeys(self.absent.listed()) | listed)
        for path in [path for path in list(self._left_out) if path not in self._now_left_out]:
            del self._left_out[path]
        self._has_looked = True

    def _matches(self) -> tuple[dict[str, Found], dict[str, str]]:
        """Returns the regular files that the patterns match and that may be read, and the root of each that is no stream."""
        found: dict[str, Found] = {}
        roots: dict[str, str] = {}
        for pattern in self._patterns:
            # The name of a file may also be a valid pattern.
            literal = os.path.lexists(pattern)
            if literal and os.path.isdir(pattern):
                if not self._has_looked:
                    raise InvalidSource(f"{text_of(pattern)} is a folder; name the files in it: {text_of(pattern)}/*")
                self.leave_out(pattern, "it is a folder now")
                continue
            root = self._root or (os.path.dirname(pattern) if literal else root_of(pattern))
            files = [file_at(pattern, self.leave_out)] if literal else matching(pattern, self.leave_out)
            for file in files:
                if file is None or file.path in found:
                    continue
                if file.path not in self._partitions:
                    if not may_read(file.path):
                        self.leave_out(file.path, "this user may not read it")
                        continue
                    roots[file.path] = root
                found[file.path] = file
        return {path: found[path] for path in sorted(found)}, roots

    def _owners(self, files: Mapping[str, Found], own_of: Mapping[str, str]) -> dict[Key, str]:
        """Returns under which path each file is read, if some have several.

        That is where it is a stream already, otherwise the log that it was rotated from, otherwise a log that was rotated,
        otherwise no link, otherwise the first.
        """
        logs = {files[path].key: own for path, own in own_of.items() if own != path}

        rotated = {own for path, own in own_of.items() if own != path}

        def order(path: str) -> tuple[bool, bool, bool, bool, str]:
            is_of_another = logs.get(files[path].key) != path
            return path not in self._partitions, is_of_another, path not in rotated, files[path].is_link, path

        owners: dict[Key, str] = {}
        for path in sorted((path for path in files if own_of.get(path, path) == path), key=order):
            key = files[path].key
            owners.setdefault(key, path if path in self._partitions else logs.get(key, path))
        return owners

    def _is_moved(self, file: Found, own: str, open_files: Mapping[Key, str]) -> bool:
        """Returns whether a file was renamed after a stream had begun to read it. The stream then keeps it."""
        before, at = self._moved.get(file.key, ("", ""))
        # The inode of a file that is not open may be another file's by now.
        partition = open_files.get(file.key) or (before if at == file.path else "")
        stream = self.streams.get(partition)
        if stream is None or os.fspath(stream.path) == own or own in self._partitions:
            return False
        try:
            # The entry of a folder may name another inode than the file system.
            if key_of(os.stat(file.path)) != file.key:
                return False
        except OSError:
            return False
        self._moved[file.key] = partition, file.path
        return True

    def moved(self, key: Key) -> Path | None:
        """Returns where a file is that was given another name while it was read; None if that is unknown."""
        return Path(self._moved[key][1]) if key in self._moved else None

    def _partition(self, own: str, root: str, path: str) -> str | None:
        """Adds a file to its stream; returns the partition. None if its name is taken by another file.

        Raises:
            InvalidSource: Its name is taken, and this is the first look.
        """
        partition = self._partitions.get(own)
        if partition is None:
            partition = partition_of(own, root, self._names)
            if partition in self.streams:
                taken = (
                    f"{text_of(self.streams[partition].path)} and {text_of(own)} would both be the stream "
                    f"{self._source}/{partition}; use two sources, or set root to a folder that contains both"
                )
                if not self._has_looked:
                    raise InvalidSource(taken)
                self.leave_out(path, taken)
                return None
            self._partitions[own] = partition
            self.streams[partition] = Stream(Path(own))
        stream = self.streams[partition]
        if path != own and Path(path) not in stream.rotated:
            stream.rotated.append(Path(path))
        return partition

    def _ask(self, own: str, root: str, partition: str) -> None:
        """Asks whether a new file was rotated from a log that does not exist now, and that the patterns would match."""
        folder, name = os.path.split(own)
        for base in bases(name) if self._rotation else ():
            log = os.path.join(folder, base)
            if any(may_match(pattern, log) for pattern in self._patterns):
                self._ask_for(log, root, partition)

    def _ask_for(self, path: str, root: str, partition: str) -> None:
        """Asks whether the file of a partition was read under another path, unless that is the name of another stream."""
        other = partition_of(path, root, self._names)
        if other not in self.streams:
            self.absent.ask(other, path, partition)

    def join(self, partition: str, log: AbsentLog) -> None:
        """Makes the files that wait for an absent log parts of its stream."""
        stream = self.streams.setdefault(partition, Stream(Path(log.path)))
        self._partitions[log.path] = partition
        for waiting in log.waiting:
            part = self.streams.pop(waiting, None)
            if part is not None:
                del self._partitions[os.fspath(part.path)]
                stream.rotated += [path for path in (part.path, *part.rotated) if path not in stream.rotated]

    def forget(self, partition: str) -> None:
        """Forgets a stream whose files are gone."""
        del self._partitions[os.fspath(self.streams.pop(partition).path)]
        self._moved = {key: moved for key, moved in self._moved.items() if moved[0] != partition}

    def renew(self, partition: str) -> None:
        """Forgets the rotated files of a stream that is gone: a file of its name is new."""
        if partition in self.streams:
            self.streams[partition] = Stream(self.streams[partition].path)

    def leave_out(self, path: str, why: str, *, quiet: bool = False) -> None:
        """Notes that a path is not read, and names it in the log, once for each reason."""
        self._now_left_out.add(path)
        if self._left_out.get(path) != why:
            self._left_out[path] = why
            log.log(logging.DEBUG if quiet else logging.WARNING, "source %s leaves out %s: %s", self._source, text_of(path), why)

    def cannot_read(self, path: str, error: OSError) -> None:
        """Notes that a stream cannot read its file now, and names it in the log, once for each reason."""
        why = error.strerror or str(error)
        if self._troubled.get(path) != why:
            self._troubled[path] = why
            log.warning("source %s cannot read %s: %s; this is tried again", self._source, text_of(path), why)

    def can_read(self, path: str) -> None:
        """Notes that a stream reads its file."""
        if self._troubled and self._troubled.pop(path, None) is not None:
            log.info("source %s reads %s", self._source, text_of(path))

    def why_none(self) -> str:
        """Returns why there are no files, as the rest of a sentence; empty if nothing was left out."""
        return "".join(f"; {text_of(path)}: {why}" for path, why in list(self._left_out.items())[:3])
