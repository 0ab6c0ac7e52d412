"""Spark's state store as attempts see it that run twice: what each executor has of its own, and what lies in the checkpoint.

Two attempts at one micro-batch may both come to their end: with speculation, or where an executor that was given up still lives.
Then what is in the checkpoint follows from the format of the state store.

- Format 1 has one file of changes for each version: the last attempt to write it stays, whichever Spark counts. An executor that
  has a version continues from what it has itself, and so the next file may be the other attempt's.
- Format 2 has a file for each attempt, and the commit log says which one counts.
"""

import copy
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

from tests.engine.stages import MemoryPieces, MemoryStore, Stages

from headrace.engine.applications.stages.keyed_stage import keyed_stage_rows
from headrace.engine.applications.stages.plan import BlockRow

Place = tuple[str, int]
"""A key of the store: the variable, and the number of the piece."""
Id = tuple[int, int]
"""A version, and the attempt that made it; 0 where the format knows of no attempts."""


def contents(store: MemoryStore) -> dict[Place, bytes]:
    """All that a store has."""
    head: dict[Place, bytes] = {} if store.head is None else {("head", 0): store.head}
    changes = {("changes", number): piece for number, piece in store.changes.kept.items()}
    return {**head, **changes, **{("segments", number): piece for number, piece in store.segments.kept.items()}}


def store_of(content: Mapping[Place, bytes]) -> MemoryStore:
    """A store that has this."""
    store = MemoryStore()
    store.head = content.get(("head", 0))
    for name, pieces in ("changes", store.changes), ("segments", store.segments):
        assert isinstance(pieces, MemoryPieces)
        pieces.kept.update({number: piece for (variable, number), piece in sorted(content.items()) if variable == name})
    return store


@dataclass
class Executor:
    """One that runs attempts at a partition.

    Attributes:
        has: The version that it has, and the attempt that made it.
        content: What that is.
    """

    has: Id = (0, 0)
    content: dict[Place, bytes] = field(default_factory=dict)


@dataclass
class Partition:
    """The state store of one partition, in the checkpoint and at the executors.

    Attributes:
        by_attempt: Whether the format has a file for each attempt.
        committed: The version that counts.
    """

    by_attempt: bool
    executors: list[Executor]
    committed: Id = (0, 0)
    changes: dict[Id, tuple[Id, dict[Place, bytes | None]]] = field(default_factory=dict)
    snapshots: dict[Id, dict[Place, bytes]] = field(default_factory=dict)
    _attempts: "count[int]" = field(default_factory=lambda: count(1))

    def begin(self, executor: Executor) -> MemoryStore:
        """The states that an attempt at the next version finds."""
        if executor.has != self.committed:
            executor.has, executor.content = self.committed, self.recovered()
        return store_of(copy.deepcopy(executor.content))

    def end(self, executor: Executor, store: MemoryStore) -> Id:
        """Has an attempt leave its files; returns its version."""
        after = contents(store)
        changed = {place: after.get(place) for place in sorted({*after, *executor.content})}
        changed = {place: piece for place, piece in changed.items() if piece != executor.content.get(place)}
        made = self.committed[0] + 1, next(self._attempts) if self.by_attempt else 0
        self.changes[made] = self.committed, changed
        executor.has, executor.content = made, after
        return made

    def snapshot(self, executor: Executor) -> None:
        """An executor's work in the background."""
        if executor.has[0]:
            self.snapshots[executor.has] = copy.deepcopy(executor.content)

    def recovered(self) -> dict[Place, bytes]:
        """What somebody finds who reads the checkpoint."""
        at, files = self.committed, []
        while at[0] and at not in self.snapshots:
            before, changed = self.changes[at]
            files.append(changed)
            at = before
        content = dict(self.snapshots.get(at, {}))
        for changed in reversed(files):
            for place, piece in changed.items():
                if piece is None:
                    content.pop(place, None)
                else:
                    content[place] = piece
        return content


@dataclass
class DoubledStages(Stages):
    """The stages of a pipeline where many attempts run twice. Each worker belongs to one of the executors.

    Attributes:
        by_attempt: Whether the format of the state store has a file for each attempt.
        doubled: How often an attempt runs twice.
        compared: How many pairs of attempts began with the same store.
        same_places: How many of them left pieces of the same sizes in the same places.
        same_bytes: How many of them left the same bytes.
    """

    by_attempt: bool = True
    doubled: float = 0.5
    compared: int = 0
    same_places: int = 0
    same_bytes: int = 0
    partitions: dict[tuple[int, int], Partition] = field(default_factory=dict)

    def _attempts(self, level: int, bucket: int, rows: list[BlockRow]) -> list[BlockRow]:  # type: ignore[override]
        draw: random.Random = self._draw
        partition = self.partitions.setdefault((level, bucket), Partition(self.by_attempt, [Executor() for _ in self._workers]))
        places = draw.sample(range(len(self._workers)), 2 if draw.random() < self.doubled else 1)
        attempts = []
        for place in places:
            store = partition.begin(partition.executors[place])
            before = contents(store)
            out = list(keyed_stage_rows(self._plan, level, bucket, rows, store, self._workers[place]))
            attempts.append((place, before, store, out))
        if len(attempts) == 2 and attempts[0][1] == attempts[1][1]:
            one, other = contents(attempts[0][2]), contents(attempts[1][2])
            self.compared += 1
            self.same_bytes += one == other
            self.same_places += {at: len(one[at]) for at in one} == {at: len(other[at]) for at in other}
        draw.shuffle(attempts)
        made = [(partition.end(partition.executors[place], store), out) for place, _, store, out in attempts]
        partition.committed, out = draw.choice(made)
        for executor in partition.executors:
            if draw.random() < 0.2:
                partition.snapshot(executor)
        self.stores[level, bucket] = store_of(partition.recovered())
        return out
