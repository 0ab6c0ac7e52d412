"""The steps of an application in one process: all stages, with the states of all buckets."""

import gc
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from headrace.engine.applications.stages.keyed_stage import divided, process, state_classes
from headrace.engine.applications.stages.plan import REPORT, BlockRow, Plan
from headrace.engine.applications.stages.reports import Report, merged, report_of
from headrace.engine.applications.stages.source_stage import pieces, rows_of_ends, rows_of_piece
from headrace.engine.applications.states.bucket_files import BucketFiles
from headrace.engine.applications.states.durable import save
from headrace.engine.applications.states.state_cache import read_bucket
from headrace.engine.applications.states.store import read_head
from headrace.engine.checkpoint.manifests import Bucket, Entry, Manifest
from headrace.engine.checkpoint.state_files import StateFiles
from headrace.engine.codec import Columns
from headrace.engine.collector import paused_collector
from headrace.engine.source.ranges import Ends
from headrace.pipelines.runtime import Key


class Processor:
    """Processes messages before their micro-batch is planned.

    Args:
        plan: The plan.
        files: The files of states in the checkpoint.
        continued: The states that the first micro-batch continues from.
        batch: The first micro-batch.
        run: The number of the run.
    """

    def __init__(self, plan: Plan, files: StateFiles, continued: Manifest, batch: int, run: int | None = None) -> None:
        self._plan = plan
        self._run = run
        self._files = files
        self._buckets = {at: _Bucket(plan, files, at, entry) for at, entry in continued.entries.items()}
        # The states are not examined for garbage, which would delay messages.
        gc.freeze()
        self._counts: Counter[tuple[int, str]] = Counter()
        self._done = Report()
        """What the steps before the first shuffle have done in this micro-batch."""
        self.batch = batch
        """The micro-batch that the next messages belong to."""

    def process(self, frames: Iterable[Columns], now: int | None) -> list[BlockRow]:
        """Processes messages; returns the rows for sinks.

        Args:
            frames: The messages.
            now: The present time, in microseconds since 1970; None if no step needs it.

        Raises:
            FrameError: The columns of a frame are inconsistent.
            StateError: Stored states do not match the classes of the pipeline.
            StepError: A function raises, and its step's policy is `OnError.FAIL`.
        """
        with paused_collector():
            return self._through([row for piece in pieces(frames) for row in rows_of_piece(self._plan, piece, now)])

    def end(self, ends: Ends) -> list[BlockRow]:
        """Processes that streams are opened or end; returns the rows for sinks."""
        return self._through(rows_of_ends(self._plan, ends))

    def save(self) -> list[BlockRow]:
        """Writes the states that the micro-batch has changed, and begins the next one; returns its rows for the driver.

        Raises:
            StateError: A state cannot be stored.
            OSError: The file system failed.
        """
        changed = {at: bucket.save(self.batch, self._run) for at, bucket in self._buckets.items() if bucket.is_changed}
        first = self._plan.bucket_ids[0]
        rows = [BlockRow(first, target, step, 0, number, b"\0") for (target, step), number in self._counts.items()]
        sizes = {at: self._buckets[at].size for at in changed}
        done = merged([self._done, *(bucket.done for bucket in self._buckets.values())])
        rows.append(replace(done, states=changed, batch=self.batch, sizes=sizes).row(first))
        self._counts.clear()
        self._done = Report()
        for bucket in self._buckets.values():
            bucket.done = Report()
        self.batch += 1
        return rows

    def _through(self, rows: list[BlockRow]) -> list[BlockRow]:
        for level in range(1, self._plan.graph.shuffles + 1):
            by_bucket: defaultdict[int, list[BlockRow]] = defaultdict(list)
            for row in rows:
                by_bucket[row.bucket].append(row)
            rows = [row for bucket in sorted(by_bucket) for row in self._departing(level, bucket, by_bucket[bucket])]
        for row in rows:
            if row.target == REPORT:
                self._done = merged([self._done, report_of(row)])
            elif row.is_counter:
                self._counts[row.target, row.stream] += row.messages
        return [row for row in rows if not row.is_counter]

    def _departing(self, level: int, bucket: int, arriving: Sequence[BlockRow]) -> list[BlockRow]:
        here, passing = divided(self._plan, level, arriving)
        if not here:
            return passing
        at = level, bucket
        if at not in self._buckets:
            self._buckets[at] = _Bucket(self._plan, self._files, at, None)
        return passing + self._buckets[at].process(here)


class _Bucket:
    """The states of one bucket, all of them in memory."""

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
