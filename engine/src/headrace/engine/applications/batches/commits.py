"""Commits the micro-batches of an application, in the driver: the votes of its sinks, and the manifest of its states."""

import logging
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.contract.errors import HeadraceError
from headrace.engine._errors import CheckpointError
from headrace.engine.applications.batches.metered import MeteredRun
from headrace.engine.applications.batches.totals import Totals
from headrace.engine.applications.real_time.parts import Run
from headrace.engine.applications.real_time.service import Service
from headrace.engine.applications.real_time.worker import RealTimeWorker
from headrace.engine.applications.stages.call_files import CallFiles, function_runs
from headrace.engine.applications.stages.reports import unpack
from headrace.engine.applications.stages.results import vote
from headrace.engine.applications.states.garbage import Garbage
from headrace.engine.checkpoint.fence import Fence
from headrace.engine.checkpoint.folder import Folder, open_folder
from headrace.engine.checkpoint.lake_batches import joined
from headrace.engine.checkpoint.log import CheckpointLog
from headrace.engine.checkpoint.manifests import MANIFESTS, STATES, Manifest, ManifestLog
from headrace.engine.checkpoint.runs import RUNS, RunLog
from headrace.engine.lakes.commits import Showing
from headrace.engine.sink.options import SinkOptions
from headrace.engine.sink.sink_calls import VoteGivenUp
from headrace.engine.sink.writer import Written
from headrace.pipelines.runtime import Lake, Meter
from headrace.protocol.v1.metrics_pb2 import RunFault, RunMetrics

STOPPED = "stopped"
"""The answer for a micro-batch whose query was stopped while it waited; `ApplicationSink` knows it."""
LOOKS_EVERY_S = 0.2
_RETAINED = "spark.sql.streaming.minBatchesToRetain"

log = logging.getLogger("headrace.engine")


class Commits:
    """The handler of `ApplicationSink` for one start of an application. Spark's thread of the query calls it.

    Args:
        states: The folder of states in the checkpoint.
        manifests: The manifests in it.
        options: The options of the sinks; None if the results are not delivered.
        sinks: The names of the sinks.
        committed: The last committed micro-batch of the checkpoint.
        runs: The runs of the checkpoint; None if they are not recorded.
        retained: The number of micro-batches before the last one that can be restored.
        committed_by: Returns the number of the run that has committed a micro-batch; None if it is unknown.
        lakes: The steps that write to tables.
        last_committed: Returns the last micro-batch in the commit log.
        former: Returns the ids of the queries that this one has replaced.
        meters: The counters and histograms.
    """

    def __init__(
        self,
        states: Folder,
        manifests: ManifestLog,
        options: SinkOptions | None,
        sinks: Sequence[str],
        committed: int | None = None,
        runs: RunLog | None = None,
        retained: int = 1,
        committed_by: Callable[[int], int | None] = lambda batch: None,
        lakes: Sequence[Lake] = (),
        last_committed: Callable[[], int | None] = lambda: None,
        former: Callable[[], Iterable[str]] = tuple,
        meters: Sequence[Meter] = (),
    ) -> None:
        self._committed_by = committed_by
        self._run_of_query: Run | None = None
        self._committed = committed
        """The last committed micro-batch, or the last one that has asked for it."""
        self._service: Service | None = None
        self._worker: RealTimeWorker | None = None
        self._query: StreamingQuery | None = None
        self._calls: CallFiles | None = None
        self._manifests = manifests
        self._options = options
        self._sinks = sinks
        self._last: Manifest | None = None
        self._fence = Fence(manifests, runs)
        self._garbage = Garbage(states, manifests, self._fence, retained)
        self._showing = Showing(lakes, self._fence, sync=options is not None and options.sync_to_disk, former=former)
        self._last_committed = last_committed
        self._totals = Totals()
        self._metered = MeteredRun(meters)

    def serve(self, worker: RealTimeWorker) -> str:
        """Serves the worker of real-time mode to the planner; returns the path of the socket."""
        self._worker, self._service = worker, Service(worker, self._present)
        return self._service.path

    def record(self, calls: CallFiles) -> None:
        """Takes over the files in which the application's processes record what they process."""
        self._calls = calls

    def started(self, query: StreamingQuery) -> None:
        """The query was started; once it is not active, nothing is waited for."""
        self._query = query

    def began(self, query: str, run: str, number: int) -> None:
        """The query has begun a run, and will ask for its first micro-batch."""
        self._run_of_query = Run(query, run, number)
        self._fence.began(run, number)
        if (batch := self._committed) is not None:
            self._showing.recover(lambda: self._after(batch).lakes)

    def committed(self, batch: int) -> None:
        """Spark has committed a micro-batch. Returns at once."""
        self._showing.committed(batch)

    def finish(self) -> None:
        """Shows what was committed in the lakes, since the process ends."""
        self._showing.close(self._last_committed)

    def begin(self, run: str | None, batch: str) -> str:
        """The states that a micro-batch of a run continues from; what is wrong, after `!`, if it cannot begin."""
        return _reported(lambda: self._begin(run, int(batch)), "!")

    def commit(self, batch: int, reports: bytes) -> str | None:
        """Waits for the votes of all sinks, and writes the manifest; returns what is wrong, STOPPED if the query was stopped.

        Spark writes `commits/N` afterwards, which makes both final.
        """
        return _reported(lambda: self._commit(batch, bytes(reports))) or None

    def metrics(self, committed: int | None) -> RunMetrics:
        """The totals of the run since it started, and the counters of the application as of the last committed micro-batch."""
        metrics = self._totals.to_proto()
        metrics.series.extend(self._metered.to_proto(committed))
        return metrics

    def resume(self, manifest: Manifest) -> None:
        """Takes over what the last committed micro-batch has counted, to show it before the next one."""
        self._metered.resume(manifest.metered)

    def hindered(self) -> RunFault | None:
        """The function that has been running for longest, if that is long; None if none has."""
        calls = [] if self._calls is None else self._calls.running()
        return function_runs(calls)

    def abort(self, batch: int) -> None:
        """Only logs: the sinks drop these parts when they prepare the batch, or when the query starts again."""
        # The query fails with the reason, or was stopped: neither needs a warning.
        run = self._run_of_query
        fields = {"batch": batch} if run is None else {"batch": batch, "query": run.query}
        log.info("batch %d of an application was not written; its sinks discard their parts", batch, extra=fields)

    def close(self) -> None:
        """Ends after the query: waits until files that are no longer needed are deleted."""
        if self._service is not None:
            self._service.stop()
        if self._calls is not None:
            self._calls.close()
        self._garbage.close()
        self._showing.close(self._last_committed)

    class Java:
        """The Java interface, for py4j."""

        implements = ("headrace.engine.ApplicationSink$Handler",)

    def _present(self) -> tuple[int, Manifest, Run]:
        """Where the query is between two micro-batches, since the planner asks for it before it plans."""
        assert self._run_of_query is not None, "a query plans after it has begun"
        batch = -1 if self._committed is None else self._committed
        return batch + 1, self._last or self._after(batch), self._run_of_query

    def _begin(self, run: str | None, batch: int) -> str:
        if run is None and self._options is not None:
            raise HeadraceError("the driver does not monitor this query, so its run has no number; restart the query")
        if self._last is None:
            if self._run_of_query is None:
                self._fence.set_number(None if run is None else int(run))
            with self._fence.guarding():
                # Not the last one in the commit log: another driver may have committed this micro-batch meanwhile.
                self._last = self._after(batch - 1)
            self.resume(self._last)
            query = None if self._run_of_query is None else self._run_of_query.query
            self._showing.resume(query, batch, self._last.lakes, self._fence.number)
            self._garbage.sweep(self._last, batch)
        return self._last.dumps(whole=False)

    def _after(self, batch: int) -> Manifest:
        """The states after a micro-batch, which is in the commit log; none if there was no micro-batch.

        Raises:
            CheckpointError: The checkpoint lacks them, or they cannot be read.
        """
        return Manifest() if batch < 0 else self._manifests.after(batch, self._committed_by(batch))

    def _commit(self, batch: int, packed: bytes) -> str:
        if self._last is None:
            raise CheckpointError(f"batch {batch} ended without having begun; restart the query")
        reports = list(unpack(packed))
        if other := {report.batch for report in reports} - {None, batch}:
            raise CheckpointError(f"a task of batch {batch} reports a result of batch {other.pop()}; restart the query")
        if self._options is not None:
            rejected = self._delivered(batch)
            if rejected is None:
                return STOPPED
            written = [*(report.written for report in reports), *rejected]
            try:
                vote(self._options, self._sinks, written, batch, self._is_stopped)
            except VoteGivenUp:
                return STOPPED
        changed = {bucket: entry for report in reports for bucket, entry in report.states.items()}
        lakes = joined(each for report in reports for each in report.lakes)
        manifest = self._last.after(changed, lakes, self._metered.after(self._last.metered, reports))
        self._showing.settle()
        with self._fence.guarding():
            self._manifests.write(batch, self._fence.number, manifest)
        self._showing.noted(batch, lakes)
        self._totals.add(reports)
        self._metered.noted(batch, manifest.metered)
        self._garbage.collect(self._last.files - manifest.files, batch)
        self._last, self._committed = manifest, batch
        return ""

    def _delivered(self, batch: int) -> list[Mapping[str, Written]] | None:
        """Waits for the results that the worker of real-time mode delivers; returns what was rejected, None if the query ends."""
        if self._worker is None:
            return []
        while (rejected := self._worker.finish(batch, LOOKS_EVERY_S)) is None:
            if self._is_stopped():
                return None
        return rejected

    def _is_stopped(self) -> bool:
        """Whether the query was stopped, which does not wait for its thread here."""
        return self._query is not None and not self._query.isActive


def commits(
    spark: SparkSession,
    url: str,
    options: SinkOptions | None,
    sinks: Sequence[str],
    committed: int | None = None,
    lakes: Sequence[Lake] = (),
    meters: Sequence[Meter] = (),
) -> Commits:
    """The handler of one start of an application.

    Args:
        spark: The session.
        url: The URL of the checkpoint, from `qualified`.
        options: The options of the sinks; None if the results are not delivered.
        sinks: The names of the sinks.
        committed: The last committed micro-batch of the checkpoint.
        lakes: The steps that write to tables.
        meters: The counters and histograms.
    """
    sync = options is not None and options.sync_to_disk
    folders = (open_folder(spark, f"{url}/{name}", sync=sync) for name in (STATES, MANIFESTS, RUNS))
    states, manifests, runs = folders
    retained = int(spark.conf.get(_RETAINED) or 0)
    log = CheckpointLog(spark, url)
    return Commits(
        states,
        ManifestLog(manifests),
        options,
        sinks,
        committed,
        RunLog(runs),
        retained,
        log.committed_by,
        lakes,
        log.last_committed_batch,
        lambda: (each.query for each in log.predecessors()),
        meters,
    )


def _reported(call: Callable[[], str], mark: str = "") -> str:
    """The result of a call; if it raises, the error, after a mark, since py4j would pass on a traceback only."""
    try:
        return call()
    except HeadraceError as error:
        return f"{mark}{type(error).__module__}.{type(error).__qualname__}: {error}"
    except Exception:
        return f"{mark}{traceback.format_exc()}"
