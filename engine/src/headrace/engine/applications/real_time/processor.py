"""The steps of an application in real-time mode: before the first shuffle in the driver, then in the process of each bucket."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from headrace.engine.applications.real_time.bucket_process import BucketProcess
from headrace.engine.applications.real_time.buckets import Buckets
from headrace.engine.applications.stages.plan import REPORT, BlockRow, Plan
from headrace.engine.applications.stages.reports import Report, merged, report_of
from headrace.engine.applications.stages.source_stage import pieces, rows_of_ends, rows_of_piece
from headrace.engine.checkpoint.manifests import Manifest
from headrace.engine.checkpoint.state_files import StateFiles
from headrace.engine.codec import Columns
from headrace.engine.collector import paused_collector
from headrace.engine.source.ranges import Ends


class Processor:
    """Processes messages before their micro-batch is planned.

    Each bucket belongs to this process or to one of the others for as long as the query runs, so the messages of a key are
    processed in order.

    Args:
        plan: The plan.
        files: The files of states in the checkpoint.
        continued: The states that the first micro-batch continues from.
        batch: The first micro-batch.
        run: The number of the run.
        processes: The processes that have a share of the buckets; at most one fewer than there are buckets.

    Raises:
        StateError: Stored states do not match the classes of the pipeline.
        HeadraceError: One of the processes has ended.
    """

    def __init__(
        self,
        plan: Plan,
        files: StateFiles,
        continued: Manifest,
        batch: int,
        run: int | None = None,
        processes: Sequence[BucketProcess] = (),
    ) -> None:
        self._plan = plan
        self._run = run
        self._processes = processes
        self._owners = {bucket: number % (len(processes) + 1) for number, bucket in enumerate(plan.bucket_ids)}
        """The number of the process to which each bucket belongs; 0 is this one."""
        shares = [
            {at: entry for at, entry in continued.entries.items() if self._owners[at[1]] == owner}
            for owner in range(len(processes) + 1)
        ]
        for process, share in zip(processes, shares[1:], strict=True):
            process.begin(share)
        self._buckets = Buckets(plan, files, shares[0])
        for process in processes:
            process.await_begun()
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
            HeadraceError: One of the processes has ended.
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
            HeadraceError: One of the processes has ended.
        """
        for process in self._processes:
            process.save(self.batch, self._run)
        saved = [self._buckets.save(self.batch, self._run), *(process.saved() for process in self._processes)]
        first = self._plan.bucket_ids[0]
        rows = [BlockRow(first, target, step, 0, number, b"\0") for (target, step), number in self._counts.items()]
        changed = {at: entry for each in saved for at, entry in each.entries.items()}
        sizes = {at: size for each in saved for at, size in each.sizes.items()}
        done = merged([self._done, *(each.done for each in saved)])
        rows.append(replace(done, states=changed, batch=self.batch, sizes=sizes).row(first))
        self._counts.clear()
        self._done = Report()
        self.batch += 1
        return rows

    def _through(self, rows: list[BlockRow]) -> list[BlockRow]:
        for level in range(1, self._plan.graph.shuffles + 1):
            rows = self._departing(level, rows)
        for row in rows:
            if row.target == REPORT:
                self._done = merged([self._done, report_of(row)])
            elif row.is_counter:
                self._counts[row.target, row.stream] += row.messages
        return [row for row in rows if not row.is_counter]

    def _departing(self, level: int, rows: Iterable[BlockRow]) -> list[BlockRow]:
        """The rows that leave a level, in the order of the buckets, whichever process owns a bucket."""
        shares: list[defaultdict[int, list[BlockRow]]] = [defaultdict(list) for _ in range(len(self._processes) + 1)]
        for row in rows:
            shares[self._owners[row.bucket]][row.bucket].append(row)
        asked = [(process, share) for process, share in zip(self._processes, shares[1:], strict=True) if share]
        for process, share in asked:
            process.process(level, share)
        departing = self._buckets.process(level, shares[0])
        for process, _ in asked:
            departing |= process.processed()
        return [row for bucket in sorted(departing) for row in departing[bucket]]
