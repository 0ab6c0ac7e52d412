"""The steps of an application in one process, after a shuffle: with the states of some buckets, all of them in memory."""

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.engine.applications.stages.keyed_stage import divided, process, state_classes
from headrace.engine.applications.stages.plan import BlockRow, Plan
from headrace.engine.applications.stages.reports import Report, merged
from headrace.engine.applications.states.bucket_files import BucketFiles
from headrace.engine.applications.states.durable import save
from headrace.engine.applications.states.state_cache import read_bucket
from headrace.engine.applications.states.store import read_head
from headrace.engine.checkpoint.manifests import Bucket, Entry
from headrace.engine.checkpoint.state_files import StateFiles
from headrace.pipelines.runtime import Key

RowsByBucket = Mapping[int, Sequence[BlockRow]]


@dataclass(frozen=True)
class Saved:
    """The changes of a micro-batch in some buckets.

    Attributes:
        entries: Where the changed states are.
        sizes: How large they are, in bytes.
        done: The report of the steps.
    """

    entries: Mapping[Bucket, Entry]
    sizes: Mapping[Bucket, int]
    done: Report


class Buckets:
    """Processes the rows of some buckets.

    Args:
        plan: The plan.
        files: The files of states in the checkpoint.
        entries: The states that the first micro-batch continues from.

    Raises:
        StateError: Stored states do not match the classes of the pipeline.
    """

    def __init__(self, plan: Plan, files: StateFiles, entries: Mapping[Bucket, Entry]) -> None:
        self._plan = plan
        self._files = files
        self._buckets = {at: _Bucket(plan, files, at, entry) for at, entry in entries.items()}
        # The states are not examined for garbage, which would delay messages.
        gc.freeze()

    def process(self, level: int, rows: RowsByBucket) -> dict[int, list[BlockRow]]:
        """Processes rows at one level; returns the rows for the next level and for sinks, by the bucket that they come from.

        Raises:
            StepError: A function raises, and its step's policy is `OnError.FAIL`.
        """
        return {bucket: self._departing(level, bucket, arriving) for bucket, arriving in rows.items()}

    def save(self, batch: int, run: int | None) -> Saved:
        """Writes the states that a micro-batch has changed.

        Raises:
            StateError: A state cannot be stored.
            OSError: The file system failed.
        """
        entries = {at: bucket.save(batch, run) for at, bucket in self._buckets.items() if bucket.is_changed}
        done = merged([bucket.done for bucket in self._buckets.values()])
        for bucket in self._buckets.values():
            bucket.done = Report()
        return Saved(entries, {at: self._buckets[at].size for at in entries}, done)

    def _departing(self, level: int, bucket: int, arriving: Sequence[BlockRow]) -> list[BlockRow]:
        here, passing = divided(self._plan, level, arriving)
        if not here:
            return passing
        at = level, bucket
        if at not in self._buckets:
            self._buckets[at] = _Bucket(self._plan, self._files, at, None)
        return passing + self._buckets[at].process(here)


class _Bucket:
    """The states of one bucket."""

    def __init__(self, plan: Plan, files: StateFiles, at: Bucket, entry: Entry | None) -> None:
        self._plan = plan
        self._files = files
        self._at = at
        self._entry = entry
        self._classes = state_classes(plan, at[0])
        store = BucketFiles(files, at, entry)
        self._head = read_head(store)
        self._held = read_bucket(store, self._head, self._classes, plan.dropped)
        self._beside = self._head.beside
        self._changed: dict[str, dict[Key, None]] = {}
        self.done = Report()
        """What the steps have done in this micro-batch."""
        self.size = 0
        """The size of the states that were stored, in bytes."""
        self.is_changed = False
        """Whether the micro-batch has messages for the bucket."""

    def process(self, here: Sequence[BlockRow]) -> list[BlockRow]:
        processed = process(self._plan, *self._at, here, self._held.kept, self._beside)
        for step, keys in processed.changed.items():
            self._changed.setdefault(step, {}).update(dict.fromkeys(keys))
        self._beside = processed.beside
        self.done = merged([self.done, processed.report])
        self.is_changed = True
        return processed.departing

    def save(self, batch: int, run: int | None) -> Entry:
        store = BucketFiles(self._files, self._at, self._entry)
        held = self._held
        self._head = save(store, self._head, held.kept, held.dirty, self._changed, self._classes, self._beside)
        held.mark_saved(self._head)
        self._changed, self.is_changed = {}, False
        self._entry = store.finish(batch, run)
        self.size = store.size
        return self._entry
