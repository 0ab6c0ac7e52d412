"""The systems at both ends, which lose nothing when a connector is killed: logs, queues, feeds, and the storage of sinks."""

import random
from dataclasses import dataclass, field

from headrace.sdk import Part, Transaction


@dataclass(frozen=True)
class Entry:
    """A message in a log."""

    sequence: int
    value: bytes


@dataclass
class Log:
    """A partitioned log, which may prune what is acknowledged."""

    name: str
    prunes: bool
    messages: dict[str, list[Entry]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    """The ended partitions that were removed."""
    closing: set[str] = field(default_factory=set)
    """The partitions that are closed for a while, when they have been read to their end."""
    acknowledged: dict[str, int] = field(default_factory=dict)
    pruned: dict[str, int] = field(default_factory=dict)
    """Up to which sequence each partition was pruned."""

    def add(self, partition: str) -> None:
        """Adds a partition."""
        self.messages[partition], self.pruned[partition], self.acknowledged[partition] = [], -1, -1

    def append(self, partition: str, source: random.Random, max_bytes: int) -> None:
        """Appends a message of about `max_bytes` at most, if the partition has not ended."""
        if partition in self.ended:
            return
        entries = self.messages[partition]
        before = entries[-1].sequence if entries else source.choice([-1, 0, 7])
        sequence = before + (1 if source.random() < 0.8 else source.randrange(1, 5))
        value = f"{self.name}/{partition}|{sequence}|{'x' * source.randrange(max_bytes)}"
        entries.append(Entry(sequence, value.encode()))

    def last(self, partition: str) -> int:
        """Returns the last sequence of a partition; -1 if it is empty."""
        entries = self.messages[partition]
        return entries[-1].sequence if entries else -1

    def is_empty(self, partition: str) -> bool:
        """Returns whether the partition was removed and all of it is acknowledged: nothing of it is read again."""
        return partition in self.gone and self.acknowledged[partition] >= self.last(partition)


READY, SETTLED = 0, -1
"""The states of a queue's message, besides the number of the consumer that holds it."""


@dataclass
class Queue:
    """A broker: messages that are not acknowledged are delivered again once their consumer is gone."""

    name: str
    messages: dict[str, dict[str, int]] = field(default_factory=dict)
    """The state of each message by its id, for each partition."""
    consumers: int = 0
    count: int = 0

    def add(self, partition: str) -> None:
        """Adds a partition."""
        self.messages[partition] = {}

    def append(self, partition: str, source: random.Random, max_bytes: int) -> None:
        """Appends a message, which is small."""
        self.count += 1
        self.messages[partition][f"{self.name}/{partition}|q{self.count}|"] = READY

    def release(self, partition: str, consumer: int) -> None:
        """Makes what a consumer has ready for others."""
        for id_, state in self.messages[partition].items():
            if state == consumer:
                self.messages[partition][id_] = READY

    def ids(self) -> list[str]:
        """Returns the ids of all messages."""
        return [id_ for messages in self.messages.values() for id_ in messages]

    def unsettled(self) -> list[str]:
        """Returns the ids of the messages that are not acknowledged."""
        return [id_ for messages in self.messages.values() for id_, state in messages.items() if state != SETTLED]


@dataclass
class Feed:
    """A change feed: it sends everything after a cursor, the number of a change, among other messages each time.

    It deletes what is acknowledged.
    """

    name: str
    changes: dict[str, list[str]] = field(default_factory=dict)
    """The ids of the changes of each partition; the cursor after the first one is 1."""
    acknowledged: dict[str, int] = field(default_factory=dict)
    """Up to which cursor each partition is acknowledged, and deleted."""
    readings: int = 0
    """How often a partition was opened."""
    ended: set[str] = field(default_factory=set)

    @property
    def messages(self) -> dict[str, list[str]]:
        """The changes of each partition."""
        return self.changes

    def add(self, partition: str) -> None:
        """Adds a partition."""
        self.changes[partition], self.acknowledged[partition] = [], 0

    def append(self, partition: str, source: random.Random, max_bytes: int) -> None:
        """Appends a change, which is small."""
        self.changes[partition].append(f"{self.name}/{partition}|{len(self.changes[partition]) + 1}|")


@dataclass(frozen=True)
class Shown:
    """Rows that a sink shows."""

    transaction: Transaction
    rows: tuple[bytes, ...]


@dataclass
class Storage:
    """The durable storage of an instance of a sink."""

    sink: str
    instance: str
    staged: dict[Part, list[bytes]] = field(default_factory=dict)
    prepared: dict[Transaction, list[Part]] = field(default_factory=dict)
    committed: dict[str, int] = field(default_factory=dict)
    """The last committed batch of each pipeline."""
    shown: list[Shown] = field(default_factory=list)

    def drop(self, transaction: Transaction, keep: list[Part] | None = None) -> None:
        """Drops the staged parts of a transaction, except for some."""
        for part in [part for part in self.staged if part.transaction == transaction and part not in (keep or ())]:
            del self.staged[part]

    def show(self, transaction: Transaction, rows: list[bytes]) -> None:
        """Shows rows, and remembers the batch."""
        self.shown.append(Shown(transaction, tuple(rows)))
        self.committed[transaction.pipeline] = max(self.committed.get(transaction.pipeline, -1), transaction.batch)
