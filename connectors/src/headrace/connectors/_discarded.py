"""Discards dead letters: removes the files of a folder that nobody writes to, and tells which ones it keeps, and why."""

import fcntl
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.connectors._dead_letters import files, read_file
from headrace.connectors.sink_folder import COMMIT, HIDDEN, LOCK
from headrace.sdk import InvalidSource

_NUMBERED = re.compile(r"(.+)-(\d{6,})\.jsonl")
_WRITTEN = "a source writes to it: stop the source first"
_CURRENT = "sink {name} runs and appends to it: stop the sink first, or wait until it begins the next file"
_UNFINISHED = "sink {name} has not finished a commit: let it run, and try again"


@dataclass(frozen=True, slots=True)
class Discardable:
    """The files of a folder of dead letters.

    Attributes:
        counts: How many dead letters are in each one that can be removed; nobody writes to them while the block lasts.
        reasons: Why others cannot, by file.
    """

    counts: Mapping[Path, int]
    reasons: Mapping[Path, str]

    def discard(self) -> Iterator[Path]:
        """Removes the files durably; yields each one that is removed.

        Raises:
            InvalidSource: One cannot be removed; those before it are.
        """
        for path in self.counts:
            try:
                path.unlink(missing_ok=True)
                _sync(path.parent)
            except OSError as error:
                raise InvalidSource(f"{path} cannot be removed: {error.strerror or error}") from error
            yield path


@contextmanager
def discardable(folder: str | os.PathLike[str]) -> Iterator[Discardable]:
    """Yields which files of a folder can be removed. No sink that has stopped starts in it while the block lasts.

    A file sink appends to its last file only, and gives no number again: an earlier file is complete, and so is the last one
    of a sink that does not run.

    Raises:
        InvalidSource: The folder does not exist, cannot be read, or contains something else.
    """
    reasons: dict[Path, str] = {}
    with ExitStack() as held:
        paths = files(folder)
        try:
            for name in _sinks(Path(folder)):
                reasons |= _in_use(Path(folder), name, paths, held)
            for path in paths:
                if path not in reasons and not _locked(path, held):
                    reasons[path] = _WRITTEN
            counts = {path: sum(1 for _ in read_file(path, 0)) for path in paths if path not in reasons}
        except OSError as error:
            raise InvalidSource(f"{os.fspath(folder)} cannot be read: {error}") from error
        yield Discardable(counts, reasons)


def _sinks(folder: Path) -> list[str]:
    """Returns the file sinks that have written to a folder."""
    try:
        return sorted(entry.name for entry in (folder / HIDDEN).iterdir() if entry.is_dir())
    except FileNotFoundError:
        return []


def _in_use(folder: Path, name: str, paths: Sequence[Path], held: ExitStack) -> dict[Path, str]:
    """Returns the files that a sink may still write to, and why."""
    hidden = folder / HIDDEN / name
    runs = not _locked(hidden / LOCK, held)
    # The files are listed before: a commit that begins from now on leaves every one alone that another one follows.
    own = sorted((int(found[2]), path) for path in paths if (found := _NUMBERED.fullmatch(path.name)) and found[1] == name)
    if (hidden / COMMIT).exists():
        return {path: _UNFINISHED.format(name=name) for _, path in own}
    return {path: _CURRENT.format(name=name) for _, path in own[-1:]} if runs else {}


def _locked(path: Path, held: ExitStack) -> bool:
    """Locks a file until the end; returns False if another process has locked it. A file that does not exist needs no lock."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    held.callback(os.close, descriptor)
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _sync(folder: Path) -> None:
    """Makes the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
