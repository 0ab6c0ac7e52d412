"""A checkpoint as a running application writes it, without Spark, beside what its states should be."""

import contextlib
import json
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.engine.levels import Count, two_levels

from headrace.engine import StoredStates
from headrace.engine.applications.batches.commits import Commits
from headrace.engine.applications.offline.rescale import _divided_states
from headrace.engine.applications.stages.reports import Report
from headrace.engine.applications.states.bucket_files import BucketFiles
from headrace.engine.applications.states.durable import load, save
from headrace.engine.applications.states.keys import bucket_ids, buckets_of
from headrace.engine.applications.states.segments import DirtyKeys
from headrace.engine.applications.states.store import read_head
from headrace.engine.checkpoint.folder import LocalFolder
from headrace.engine.checkpoint.manifests import BY_COMMAND, MANIFESTS, STATES, ManifestLog
from headrace.engine.checkpoint.state_files import LocalFiles
from headrace.pipelines.runtime import Key

GRAPH = two_levels().graph
LEVELS = GRAPH.keyed_levels
STEPS = tuple(LEVELS)
Changes = Mapping[tuple[str, Key], int | None]
"""The number that each changed key has counted to in a step; None if its state is removed."""


class Died(Exception):
    """The driver dies."""


@dataclass
class LiveCheckpoint:
    """A checkpoint, and the states that are committed in it.

    Attributes:
        folder: The checkpoint.
        partitions: The number of buckets.
        retained: The number of micro-batches before the last one that can be restored.
        committed: The last committed micro-batch; -1 if there is none.
        expected: The states after each micro-batch, by step and key.
    """

    folder: Path
    partitions: int = 3
    retained: int = 1
    committed: int = -1
    expected: dict[int, dict[tuple[str, Key], int]] = field(default_factory=lambda: {-1: {}})
    _runs: int = 0
    _commits: Commits | None = None

    @property
    def files(self) -> LocalFiles:
        """The files of states."""
        return LocalFiles(self.folder / STATES)

    def states(self) -> StoredStates:
        """The states that a reader sees."""
        return StoredStates(None, str(self.folder), GRAPH)

    def start(self) -> None:
        """Starts a run, as a driver that continues after another one that may have died."""
        self.stop()
        self._runs += 1
        states, manifests = LocalFolder(self.folder / STATES), ManifestLog(LocalFolder(self.folder / MANIFESTS))
        self._commits = Commits(states, manifests, None, (), retained=self.retained)

    def stop(self) -> None:
        """Ends the run."""
        if self._commits is not None:
            self._commits.close()
            self._commits = None

    def run(self, changes: Changes, dies: str = "") -> None:
        """A micro-batch, in which the driver may die: `before` its manifest, or `after` it and before the commit."""
        if self._commits is None:
            self.start()
        assert self._commits is not None
        batch = self.committed + 1
        self._write("offsets", batch, {"batchTimestampMs": 0, "conf": {"spark.sql.shuffle.partitions": str(self.partitions)}})
        self._commits.begin(str(self._runs), str(batch))
        with contextlib.suppress(Died):
            reports = list(self._reports(batch, changes))
            self._may_die(dies == "before")
            assert self._commits.commit(batch, _packed(reports)) is None
            # While it deletes, the files of the next micro-batch would be left to the one after it.
            if (deletion := self._commits._garbage._running) is not None:
                deletion.result()
            self._may_die(dies == "after")
            self._write("commits", batch, {})
            after = dict(self.expected[self.committed])
            for at, seen in changes.items():
                after.pop(at, None)
                if seen is not None:
                    after[at] = seen
            self.committed = batch
            self.expected[batch] = after

    def rescaled(self, folder: Path, partitions: int) -> "LiveCheckpoint":
        """A new checkpoint that continues with another number of buckets."""
        self.stop()
        new = LiveCheckpoint(folder, partitions, self.retained, 0, {0: self.expected[self.committed]}, BY_COMMAND)
        manifest, _ = _divided_states(self.states(), GRAPH, bucket_ids(partitions), new.files)
        ManifestLog(LocalFolder(folder / MANIFESTS)).write(0, BY_COMMAND, manifest)
        new._write("offsets", 0, {"batchTimestampMs": 0, "conf": {"spark.sql.shuffle.partitions": str(partitions)}})
        new._write("commits", 0, {})
        return new

    def _reports(self, batch: int, changes: Changes) -> Iterator[Report]:
        """The reports of a micro-batch's tasks, which write their files."""
        ids = bucket_ids(self.partitions)
        changed: defaultdict[tuple[int, int], dict[str, dict[Key, int | None]]] = defaultdict(lambda: defaultdict(dict))
        for (step, key), seen in changes.items():
            changed[LEVELS[step], ids[int(buckets_of([key], len(ids))[0])]][step][key] = seen
        before = None
        if self.committed >= 0:
            before = ManifestLog(LocalFolder(self.folder / MANIFESTS)).read(self.committed)
        for at, by_step in changed.items():
            classes = {step.name: step.state_class for step in GRAPH.keyed if LEVELS[step.name] == at[0]}
            store = BucketFiles(self.files, at, None if before is None else before.entries.get(at))
            head, dirty = read_head(store), DirtyKeys()
            dirty.forget(head.segments, -1)
            kept = load(store, head, classes, dirty=dirty)
            for step, some in by_step.items():
                for key, seen in some.items():
                    kept[step].pop(key, None)
                    if seen is not None:
                        kept[step][key] = Count(seen)
            save(store, head, kept, dirty, by_step, classes, {})
            yield Report({at: store.finish(batch, self._runs)})

    def _may_die(self, dies: bool) -> None:
        if dies:
            # Another driver continues: this one leaves what it has written.
            self.stop()
            raise Died

    def _write(self, log: str, batch: int, document: Mapping[str, object]) -> None:
        entry = self.folder / log / str(batch)
        entry.parent.mkdir(parents=True, exist_ok=True)
        entry.write_text(f"v1\n{json.dumps(document)}\n")
        for old in entry.parent.iterdir():
            if int(old.name) < batch - max(1, self.retained):
                old.unlink()


def _packed(reports: list[Report]) -> bytes:
    blocks = [report.row(0).block for report in reports]
    return b"".join(struct.pack("!i", len(block)) + block for block in blocks)
