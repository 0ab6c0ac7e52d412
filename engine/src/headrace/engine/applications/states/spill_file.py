"""A file on the local disk of a worker with what its memory has no room for: a cache, which ends with the process.

The file has no name, so nothing is left of it however the process ends, and no other process ever reads it. It needs no journal
and is never forced to the disk: after any error, the bucket is read from the checkpoint again.
"""

import os
import pickle
import sqlite3
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from headrace.engine._errors import SpillError
from headrace.engine.applications.states.keys import parts_of
from headrace.pipelines.runtime import Key, dumps_plain

CACHE_BYTES = 4 * 2**20
"""The memory for pages of one file, in bytes."""
_ASKED = 500
"""The number of rows that one statement reads."""
_SCANNED = 2_000
"""The number of rows that a scan has in memory."""
_FOLDERS = "SPARK_LOCAL_DIRS"
"""The variable with which Spark tells a worker its local folders."""


def local_folder() -> Path:
    """Where the worker may keep large temporary files: one of Spark's local folders, or the folder of temporary files."""
    folders = [each for each in os.environ.get(_FOLDERS, "").split(",") if os.path.isdir(each)]
    return Path(folders[os.getpid() % len(folders)] if folders else tempfile.gettempdir())


class SpillFile:
    """A file of tables of bytes by key.

    Args:
        folder: The folder in which it takes up space.

    Raises:
        SpillError: It cannot be created.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables = 0
        with self.naming():
            descriptor, path = tempfile.mkstemp(prefix="headrace-states-", dir=folder)
            try:
                os.close(descriptor)
                self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
                for setting in ("journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE"):
                    self._database.execute(f"PRAGMA {setting}")
                self._database.execute(f"PRAGMA cache_size=-{CACHE_BYTES // 1024}")
                # The only transaction, which never ends: the database is gone when it is closed.
                self._database.execute("BEGIN EXCLUSIVE")
            finally:
                os.unlink(path)
        # A connection refers to itself, and what was frozen is never examined for such cycles.
        weakref.finalize(self, self._database.close)

    def table(self) -> "Table":
        """A new table.

        Raises:
            SpillError: The disk failed.
        """
        self._tables += 1
        return Table(self, self._database, f"t{self._tables}")

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Names the folder, and what to do, if the disk fails.

        Raises:
            SpillError: It has failed.
        """
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise SpillError(
                f"states that the memory of a worker has no room for cannot be kept in {self._folder}: {error}; make room there, "
                "name a folder on a larger disk as spark.local.dir, or raise worker_memory"
            ) from error


class Table:
    """Bytes by key, in the order of keys. All methods raise SpillError if the disk fails.

    Args:
        file: The file.
        database: The file as a database.
        name: The table's name.
    """

    def __init__(self, file: SpillFile, database: sqlite3.Connection, name: str) -> None:
        self._file = file
        self._database = database
        self._name = name
        with file.naming():
            database.execute(f"CREATE TABLE {name}(key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")

    def write(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Writes rows, which replace rows of the same keys."""
        with self._file.naming():
            self._database.executemany(f"INSERT OR REPLACE INTO {self._name} VALUES(?, ?)", rows)

    def delete(self, keys: Iterable[bytes]) -> None:
        """Removes rows."""
        with self._file.naming():
            self._database.executemany(f"DELETE FROM {self._name} WHERE key = ?", ((key,) for key in keys))

    def delete_before(self, end: bytes) -> None:
        """Removes the rows whose keys are less than `end`."""
        with self._file.naming():
            self._database.execute(f"DELETE FROM {self._name} WHERE key < ?", (end,))

    def read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The rows of some keys; a key without a row is left out."""
        found: dict[bytes, bytes] = {}
        for some in self._parts(keys):
            found.update((key, value) for key, value in self._rows("key, value", some))
        return found

    def having(self, keys: Sequence[bytes]) -> set[bytes]:
        """The keys that have a row."""
        return {key for some in self._parts(keys) for (key,) in self._rows("key", some)}

    def scan(self, first: bytes = b"", end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """The rows from a key on, and before another one, a few at a time. Rows may change meanwhile."""
        condition, limits = ("", ()) if end is None else ("AND key < ?", (end,))
        question = f"SELECT key, value FROM {self._name} WHERE key %s ? {condition} ORDER BY key LIMIT {_SCANNED}"
        last, relation = first, ">="
        while True:
            with self._file.naming():
                rows = self._database.execute(question % relation, (last, *limits)).fetchall()
            yield from rows
            if len(rows) < _SCANNED:
                return
            last, relation = rows[-1][0], ">"

    def _parts(self, keys: Sequence[bytes]) -> Iterator[list[bytes]]:
        # In their order, in which neighbours are in one page of the file.
        ordered = iter(sorted(keys))
        while some := list(islice(ordered, _ASKED)):
            yield some

    def _rows(self, columns: str, keys: Sequence[bytes]) -> list[tuple[bytes, ...]]:
        marks = ",".join("?" * len(keys))
        with self._file.naming():
            return self._database.execute(f"SELECT {columns} FROM {self._name} WHERE key IN ({marks})", keys).fetchall()


_TEXT, _BYTES, _OTHER = b"s", b"b", b"p"
"""The kind of a key, after its part."""


def names_of(keys: Sequence[Key]) -> list[bytes]:
    """The names of rows for keys: the rows of one part are together."""
    return [bytes((part,)) + _spelled(key) for part, key in zip(parts_of(keys), keys, strict=True)]


def _spelled(key: Key) -> bytes:
    if isinstance(key, str):
        return _TEXT + key.encode()
    return _BYTES + key if isinstance(key, bytes) else _OTHER + dumps_plain(key)


def key_of(name: bytes) -> Key:
    """The key of a row."""
    kind = name[1:2]
    if kind == _TEXT:
        return name[2:].decode()
    found: Key = name[2:] if kind == _BYTES else pickle.loads(memoryview(name)[2:])
    return found
