"""The sources of the fault tests, as the connector process runs them and as the tests steer and examine them.

A source is a folder: what it holds, what was acknowledged to it, what it no longer has. Connectors are killed; folders stay.
"""

import json
import sqlite3
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from tests.faults.processes import write_whole

from headrace.sdk import Batch, Message, Packed, Position, PositionLost, Source, SourceKind

KEYS = 23
CHUNK = 20
PREFETCH = 150
FLOOD_MESSAGES = 10_000_000
FLOOD_BATCH = 1_000
FLOOD_VALUE_BYTES = 1_000


def number_key(n: int) -> bytes:
    """The key of the n-th message."""
    return b"k%02d" % (n * 7919 % KEYS)


def number_value(n: int) -> int:
    """The value of the n-th message."""
    return n * n % 1009


def number_sequence(n: int) -> int:
    """The sequence of the n-th message; n counts from 1. Every other sequence is missing, as in a compacted topic."""
    return 2 * n


class Numbers(Source):
    """Replayable: partitions of numbered messages. It forgets what was acknowledged, and can be told to forget more."""

    name = "numbers"

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    # What the connector runs

    def partitions(self) -> Sequence[str]:
        return sorted(path.stem for path in self.folder.glob("*.offered"))

    def read(self, partition: str, position: Position | None) -> Iterator[Message | None]:
        at, floor = self._start(position), self._number(partition, "floor")
        if position is not None and position.sequence < number_sequence(floor):
            reason = f"messages up to {floor} were deleted"
            raise PositionLost(reason, earliest=number_sequence(floor + 1))
        at = max(at, floor)
        while not (self.folder / f"{partition}.ended").exists() or at < self.offered(partition):
            for n in range(at + 1, min(at + CHUNK, self.offered(partition)) + 1):
                # A cursor now and then only: what follows it is sent again, and dropped.
                cursor = b"%d" % n if n % 7 == 0 else None
                yield Message(b"%d" % number_value(n), number_key(n), sequence=number_sequence(n), cursor=cursor)
                at = n
            yield None

    def acknowledged(self, partition: str, position: Position) -> None:
        assert position.sequence % 2 == 0, f"acknowledged {position}, which is no message's"
        n = position.sequence // 2
        assert n >= self.acked(partition), f"the acknowledged position stepped back from {self.acked(partition)} to {n}"
        write_whole(self.folder / f"{partition}.acked", str(n))
        write_whole(self.folder / f"{partition}.floor", str(max(n, self._number(partition, "floor"))))

    # What tests do

    def offer(self, partition: str, last: int) -> None:
        """Has messages 1 to `last`."""
        write_whole(self.folder / f"{partition}.offered", str(last))

    def offered(self, partition: str) -> int:
        """The last message that it has."""
        return self._number(partition, "offered")

    def end(self, partition: str) -> None:
        """The partition will have no more."""
        write_whole(self.folder / f"{partition}.ended", "")

    def forget(self, partition: str, last: int) -> None:
        """Loses messages up to `last`, acknowledged or not."""
        write_whole(self.folder / f"{partition}.floor", str(last))

    def acked(self, partition: str) -> int:
        """The last message that was acknowledged; 0 where none was."""
        return self._number(partition, "acked")

    def has_acked(self, partition: str, last: int) -> bool:
        """Whether everything up to `last` was acknowledged, and no more."""
        return self.acked(partition) == last

    def _start(self, position: Position | None) -> int:
        if position is None:
            return 0
        return int(position.cursor) if position.cursor else 0

    def _number(self, partition: str, what: str) -> int:
        path = self.folder / f"{partition}.{what}"
        return int(path.read_text()) if path.exists() else 0


class Dated(Numbers):
    """The same, where the n-th message happened n seconds after 1970 began."""

    name = "dated"

    def read(self, partition: str, position: Position | None) -> Iterator[Message | None]:
        for message in super().read(partition, position):
            yield message and replace(message, event_time=(message.sequence or 0) // 2 * 1_000_000)


class Queue(Source):
    """Redelivering: a durable queue that gives at most PREFETCH messages that are not acknowledged."""

    name = "queue"
    kind = SourceKind.REDELIVERING

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "queue.sqlite"
        with closing(self._connect()) as store:
            store.execute("CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, acked INTEGER NOT NULL DEFAULT 0)")

    def read(self, partition: str, position: Position | None) -> Iterator[Message | None]:
        # The position tells of an earlier epoch; what is not acknowledged counts.
        delivered = 0
        with closing(self._connect()) as store:
            while True:
                held = "SELECT count(*) FROM messages WHERE acked = 0 AND id <= ?"
                room = PREFETCH - store.execute(held, (delivered,)).fetchone()[0]
                more = "SELECT id FROM messages WHERE acked = 0 AND id > ? ORDER BY id LIMIT ?"
                for (number,) in store.execute(more, (delivered, min(room, CHUNK))).fetchall():
                    yield Message(b"%d" % number, b"queue", token=number)
                    delivered = number
                yield None

    def settle(self, partition: str, tokens: Sequence[object]) -> None:
        with closing(self._connect()) as store:
            store.executemany("UPDATE messages SET acked = 1 WHERE id = ?", [(token,) for token in tokens])

    def put(self, last: int) -> None:
        """Publishes messages up to `last`."""
        with closing(self._connect()) as store:
            first = store.execute("SELECT coalesce(max(id), 0) + 1 FROM messages").fetchone()[0]
            store.executemany("INSERT INTO messages (id) VALUES (?)", [(n,) for n in range(first, last + 1)])

    def unacked(self) -> int:
        """How many messages are not acknowledged."""
        with closing(self._connect()) as store:
            count = store.execute("SELECT count(*) FROM messages WHERE acked = 0").fetchone()[0]
            assert isinstance(count, int)
            return count

    def _connect(self) -> sqlite3.Connection:
        store = sqlite3.connect(self._file, timeout=120, isolation_level=None)
        store.execute("PRAGMA journal_mode = WAL")
        store.execute("PRAGMA synchronous = OFF")  # processes are killed here, not machines
        return store


class Careful(Source):
    """Sends a message, waits for its acknowledgement, and only then sends the next: a prefetch of 1."""

    name = "careful"
    idle_seconds = 0.005

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "waits.jsonl"
        self._acked = 0

    def read(self, partition: str, position: Position | None) -> Iterator[Message | None]:
        at = position.sequence if position is not None else 0
        while True:
            at += 1
            sent_at = time.monotonic()
            yield Message(b"%d" % at, b"careful", sequence=at)
            while self._acked < at:
                yield None
            with self._file.open("a") as file:
                file.write(json.dumps([at, time.monotonic() - sent_at]) + "\n")

    def acknowledged(self, partition: str, position: Position) -> None:
        self._acked = position.sequence

    def waits(self) -> list[float]:
        """How long each message waited for its acknowledgement, in seconds."""
        if not self._file.exists():
            return []
        return [json.loads(line)[1] for line in self._file.read_text().splitlines(keepends=True) if line.endswith("\n")]


class Flood(Source):
    """Offers 10 GB as fast as they are taken."""

    name = "flood"

    def __init__(self, folder: Path) -> None:
        self._values = Packed(bytes(FLOOD_BATCH * FLOOD_VALUE_BYTES), array("I", [FLOOD_VALUE_BYTES]) * FLOOD_BATCH)

    def read(self, partition: str, position: Position | None) -> Iterator[Batch | None]:
        first = position.sequence + 1 if position is not None else 1
        for at in range(first, FLOOD_MESSAGES, FLOOD_BATCH):
            yield Batch(self._values, sequences=range(at, at + FLOOD_BATCH))


SOURCES: dict[str, type[Numbers | Queue | Careful | Flood]] = {s.name: s for s in (Numbers, Dated, Queue, Careful, Flood)}
