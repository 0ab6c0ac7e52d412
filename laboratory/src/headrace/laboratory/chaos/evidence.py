"""What processes have left on disk, read without a line of the product's code."""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

TWO_PHASE = "two-phase"
IDEMPOTENT = "idempotent"
SINKS = (TWO_PHASE, IDEMPOTENT)
"""The sinks, and the queries that write to them."""

Position = tuple[int, int]
"""Epoch and sequence."""


@dataclass(frozen=True)
class Layout:
    """Where everything is in the folder of a world."""

    folder: Path

    def checkpoint(self, sink: str) -> Path:
        """Spark's checkpoint of the query that writes to a sink."""
        return self.folder / "checkpoints" / sink

    @property
    def output(self) -> Path:
        """The folder of the two-phase sink's first instance."""
        return self.folder / "output"

    def output_of(self, instance: int) -> Path:
        """The folder of an instance of the two-phase sink, counted from 1."""
        return self.output if instance == 1 else self.folder / f"output-{instance}"

    def outputs(self) -> list[Path]:
        """The folders of those instances of the two-phase sink that have one by now."""
        return sorted(self.folder.glob("output*"))

    @property
    def store(self) -> Path:
        """The database of the batch-idempotent sink."""
        return self.folder / "store.sqlite"

    def journal(self, source: str) -> Path:
        """What a source has given, and what was acknowledged to it."""
        return self.folder / f"{source}.journal"

    @property
    def watched(self) -> Path:
        """Which batches became visible when."""
        return self.folder / "watched.journal"

    @property
    def failures(self) -> Path:
        """Queries that failed, and were started again."""
        return self.folder / "failures.journal"

    @property
    def driver(self) -> Path:
        """The process id of the driver that was started last."""
        return self.folder / "driver.pid"

    @property
    def offered(self) -> Path:
        """How many messages each sender may send in all."""
        return self.folder / "offered"


# Checkpoints


def last_commit(checkpoint: Path) -> int | None:
    """The last batch in the commit log; None where there is none."""
    try:
        names = os.listdir(checkpoint / "commits")
    except FileNotFoundError:
        return None
    return max((int(name) for name in names if name.isdecimal()), default=None)


def committed(checkpoint: Path) -> dict[str, Position]:
    """How far the commit log says that each stream was read."""
    batch = last_commit(checkpoint)
    return {} if batch is None else _end_of(checkpoint, batch)


@lru_cache
def _end_of(checkpoint: Path, batch: int) -> dict[str, Position]:
    """Where a committed batch ended in each stream."""
    document = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1])
    return {name: (int(p["epoch"]), int(p["sequence"])) for name, p in document["streams"].items()}


# Sinks


class VisibleRecords:
    """The records in the files of an instance of the two-phase sink, each preceded by its length as a big-endian u32."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, int] = {}

    def new(self) -> Iterator[bytes]:
        """Those that have become visible since the last call; a file may end within one."""
        for path in sorted(self._folder.glob("*.bin")):
            at = self._read.get(path.name, 0)
            if path.stat().st_size == at:
                continue
            with path.open("rb") as file:
                file.seek(at)
                data = file.read()
            start, end = 0, 4
            while end <= len(data) and (end := start + 4 + int.from_bytes(data[start:end], "big")) <= len(data):
                yield data[start + 4 : end]
                start, end = end, end + 4
            self._read[path.name] = at + start


def stored_records(store: Path, after: int = 0) -> list[tuple[int, bytes, bytes]]:
    """Number, key and value of the records of the batch-idempotent sink, in the order in which they were written."""
    if not store.exists():
        return []
    with closing(sqlite3.connect(store, timeout=30)) as database:
        try:
            return database.execute("SELECT number, key, value FROM rows WHERE number > ? ORDER BY number", (after,)).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise


# Journals


class JournalReader:
    """Reads a journal as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def new(self) -> Iterator[dict[str, Any]]:
        """The entries since the last call. A line that a killed process has left unfinished is none."""
        if not self._path.exists() or self._path.stat().st_size == self._at:
            return
        with self._path.open("rb") as file:
            file.seek(self._at)
            whole = file.read().rpartition(b"\n")[0]
        self._at += len(whole) + 1 if whole else 0
        for line in whole.splitlines():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                continue


class Journal:
    """A file that entries are appended to, so that a killed process leaves all of one or a line that is none."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        if self._file.tell() and path.read_bytes()[-1:] != b"\n":
            self._file.write(b"\n")

    def note(self, **entry: object) -> None:
        """Appends an entry."""
        self._file.write(json.dumps(entry).encode() + b"\n")
