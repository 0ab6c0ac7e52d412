"""Reads what the processes have left on disk, without any code of the product."""

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
    """The paths in the folder of a world."""

    folder: Path

    def checkpoint(self, sink: str) -> Path:
        """Returns the checkpoint of the query that writes to a sink."""
        return self.folder / "checkpoints" / sink

    @property
    def output(self) -> Path:
        """The folder of the two-phase sink's first instance."""
        return self.folder / "output"

    def output_of(self, instance: int) -> Path:
        """Returns the folder of an instance of the two-phase sink, counted from 1."""
        return self.output if instance == 1 else self.folder / f"output-{instance}"

    def outputs(self) -> list[Path]:
        """Returns the existing folders of instances of the two-phase sink."""
        return sorted(self.folder.glob("output*"))

    @property
    def store(self) -> Path:
        """The database of the batch-idempotent sink."""
        return self.folder / "store.sqlite"

    def journal(self, source: str) -> Path:
        """Returns the journal of a source: the messages it has sent, and its acknowledgements."""
        return self.folder / f"{source}.journal"

    @property
    def watched(self) -> Path:
        """The file that records when each batch became visible."""
        return self.folder / "watched.journal"

    @property
    def failures(self) -> Path:
        """The file that records the queries that failed and were restarted."""
        return self.folder / "failures.journal"

    @property
    def driver(self) -> Path:
        """The file with the process id of the latest driver."""
        return self.folder / "driver.pid"

    @property
    def offered(self) -> Path:
        """The file with the total number of messages that each sender may send."""
        return self.folder / "offered"


# Checkpoints


def last_commit(checkpoint: Path) -> int | None:
    """Returns the last batch in the commit log; None if the log is empty."""
    try:
        names = os.listdir(checkpoint / "commits")
    except FileNotFoundError:
        return None
    return max((int(name) for name in names if name.isdecimal()), default=None)


def committed(checkpoint: Path) -> dict[str, Position]:
    """Returns the committed position of each stream, according to the commit log."""
    batch = last_commit(checkpoint)
    return {} if batch is None else _end_of(checkpoint, batch)


@lru_cache
def _end_of(checkpoint: Path, batch: int) -> dict[str, Position]:
    """Returns the position of each stream at the end of a committed batch."""
    document = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1])
    return {name: (int(p["epoch"]), int(p["sequence"])) for name, p in document["streams"].items()}


# Sinks


class VisibleRecords:
    """The records in the files of an instance of the two-phase sink, each preceded by its length as a big-endian u32."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, int] = {}

    def new(self) -> Iterator[bytes]:
        """Yields the records that have become visible since the last call; the last record of a file may be incomplete."""
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
    """Returns number, key and value of the records of the batch-idempotent sink after a number, in the order of writing."""
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
        """Yields the entries since the last call, without a line that a killed process has left incomplete."""
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
    """A file of appended entries. A killed process leaves a complete entry, or an incomplete line that readers ignore."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        if self._file.tell() and path.read_bytes()[-1:] != b"\n":
            self._file.write(b"\n")

    def note(self, **entry: object) -> None:
        """Appends an entry."""
        self._file.write(json.dumps(entry).encode() + b"\n")
