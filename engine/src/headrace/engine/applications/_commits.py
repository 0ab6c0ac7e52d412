"""Commits the micro-batches of an application, in the driver: the votes of its sinks, and the manifest of its states."""

import logging
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.contract.errors import HeadraceError
from headrace.engine._errors import CheckpointError
from headrace.engine.applications._reports import unpack
from headrace.engine.applications._results import vote
from headrace.engine.applications._totals import Totals
from headrace.engine.applications.real_time._parts import Run
from headrace.engine.applications.real_time._service import Service
from headrace.engine.applications.real_time._worker import RealTimeWorker
from headrace.engine.checkpoint._folder import Folder, open_folder
from headrace.engine.checkpoint._manifests import MANIFESTS, STATES, Manifest, ManifestLog, batch_of
from headrace.engine.sink._options import SinkOptions
from headrace.engine.sink._writer import Written
from headrace.protocol.v1.metrics_pb2 import RunMetrics

STOPPED = "stopped"
"""The answer for a micro-batch whose query was stopped while it waited; `ApplicationSink` knows it."""
LOOKS_EVERY_S = 0.2

log = logging.getLogger("headrace.engine")


class Commits:
    """The handler of `ApplicationSink` for one start of an application. Spark's thread of the query calls it.

    Args:
        states: The folder of states in the checkpoint.
        manifests: The manifests in it.
        options: The options of the sinks; None if the results are not delivered.
        sinks: The names of the sinks.
        committed: The last committed micro-batch of the checkpoint.
    """

    def __init__(
        self,
        states: Folder,
        manifests: ManifestLog,
        options: SinkOptions | None,
        sinks: Sequence[str],
        committed: int | None = None,
    ) -> None:
        self._run_of_query: Run | None = None
        self._committed = committed
        """The last committed micro-batch, or the last one that has asked for it."""
        self._service: Service | None = None
        self._worker: RealTimeWorker | None = None
        self._query: StreamingQuery | None = None
        self._manifests = manifests
        self._options = options
        self._sinks = sinks
        self._run = 0
        self._last: Manifest | None = None
        self._outdated: frozenset[str] = frozenset()
        """The files of the manifest before the last one, which is needed until Spark has committed the last one."""
        self._garbage = _Garbage(states, manifests)
        self._totals = Totals()

    def serve(self, worker: RealTimeWorker) -> str:
        """Serves the worker of real-time mode to the planner; returns the path of the socket."""
        self._worker, self._service = worker, Service(worker, self._present)
        return self._service.path

    def started(self, query: StreamingQuery) -> None:
        """The query was started; once it is not active, nothing is waited for."""
        self._query = query

    def began(self, query: str, run: str, number: int) -> None:
        """The query has begun a run, and will ask for its first micro-batch."""
        self._run_of_query = Run(query, run, number)

    def begin(self, run: str | None, batch: str) -> str:
        """The states that a micro-batch of a run continues from; what is wrong, after `!`, if it cannot begin."""
        return _reported(lambda: self._begin(run, int(batch)), "!")

    def commit(self, batch: int, reports: bytes) -> str | None:
        """Waits for the votes of all sinks, and writes the manifest; returns what is wrong, STOPPED if the query was stopped.

        Spark writes `commits/N` afterwards, which makes both final.
        """
        return _reported(lambda: self._commit(batch, bytes(reports))) or None

    def metrics(self) -> RunMetrics:
        """What the run has done since it started."""
        return self._totals.to_proto()

    def abort(self, batch: int) -> None:
        """Only logs: the sinks drop these parts when they prepare the batch, or when the query starts again."""
        # The query fails with the reason, or was stopped: neither needs a warning.
        run = self._run_of_query
        fields = {"batch": batch} if run is None else {"batch": batch, "query": run.query}
        log.info("batch %d of an application was not written; its sinks discard their parts", batch, extra=fields)

    def close(self) -> None:
        """Ends after the query: waits until files that are not needed any more are deleted."""
        if self._service is not None:
            self._service.stop()
        self._garbage.close()

    class Java:
        """The Java interface, for py4j."""

        implements = ("headrace.engine.ApplicationSink$Handler",)

    def _present(self) -> tuple[int, Manifest, Run]:
        """Where the query is between two micro-batches, since the planner asks for it before it plans."""
        assert self._run_of_query is not None, "a query plans after it has begun"
        batch = -1 if self._committed is None else self._committed
        return batch + 1, self._last or self._manifests.read(batch) or Manifest(), self._run_of_query

    def _begin(self, run: str | None, batch: int) -> str:
        if run is None and self._options is not None:
            raise HeadraceError("the driver does not monitor this query, so its run has no number; restart the query")
        self._run = int(run or 1)
        if self._last is None:
            # Not the last one in the commit log: another driver may have committed this micro-batch meanwhile.
            self._last = self._manifests.read(batch - 1) or Manifest()
            self._garbage.sweep(self._last.files, batch - 1)
        return self._last.dumps(whole=False)

    def _commit(self, batch: int, packed: bytes) -> str:
        if self._last is None:
            raise CheckpointError(f"batch {batch} ended without having begun; restart the query")
        reports = list(unpack(packed))
        if other := {report.batch for report in reports} - {None, batch}:
            raise CheckpointError(f"batch {batch} has the result of batch {other.pop()}; restart the query")
        if self._options is not None:
            rejected = self._delivered(batch)
            if rejected is None:
                return STOPPED
            vote(self._options, self._sinks, [*(report.written for report in reports), *rejected], batch)
        changed = {bucket: entry for report in reports for bucket, entry in report.states.items()}
        manifest = self._last.after(changed)
        self._manifests.write(batch, self._run, manifest)
        self._totals.add(reports)
        # This micro-batch has run, so the one before it is committed, and those before that are not needed any more.
        self._garbage.collect(self._outdated - self._last.files, batch - 1)
        self._outdated = self._last.files
        self._last, self._committed = manifest, batch
        return ""

    def _delivered(self, batch: int) -> list[Mapping[str, Written]] | None:
        """Waits for the results that the worker of real-time mode delivers; returns what was rejected, None if the query ends."""
        if self._worker is None:
            return []
        while (rejected := self._worker.finish(batch, LOOKS_EVERY_S)) is None:
            if self._query is not None and not self._query.isActive:
                return None
        return rejected


def commits(
    spark: SparkSession, url: str, options: SinkOptions | None, sinks: Sequence[str], committed: int | None = None
) -> Commits:
    """The handler of one start of an application.

    Args:
        spark: The session.
        url: The URL of the checkpoint, from `qualified`.
        options: The options of the sinks; None if the results are not delivered.
        sinks: The names of the sinks.
        committed: The last committed micro-batch of the checkpoint.
    """
    manifests = ManifestLog(open_folder(spark, f"{url}/{MANIFESTS}"))
    return Commits(open_folder(spark, f"{url}/{STATES}"), manifests, options, sinks, committed)


class _Garbage:
    """Deletes what no manifest needs any more, in a thread of its own, since files may be on other machines."""

    def __init__(self, states: Folder, manifests: ManifestLog) -> None:
        self._states = states
        self._manifests = manifests
        self._thread = ThreadPoolExecutor(1, "headrace-states")
        self._running: Future[None] | None = None
        self._files: set[str] = set()

    def collect(self, files: Collection[str], first_batch: int) -> None:
        """Deletes files, and the manifests of micro-batches before `first_batch`: now, or with the next ones if it is busy."""
        self._files.update(files)
        if self._running is None or self._running.done():
            files, self._files = self._files, set()
            self._running = self._thread.submit(self._delete, files, first_batch)

    def sweep(self, needed: Collection[str], committed: int) -> None:
        """Deletes the files that attempts have left behind, of micro-batches up to the last committed one."""
        self._running = self._thread.submit(self._sweep, needed, committed)

    def close(self) -> None:
        """Waits until everything that it has begun to delete is deleted."""
        self._thread.shutdown()

    def _sweep(self, needed: Collection[str], committed: int) -> None:
        names = [name for name in self._states.names() if batch_of(name) is not None]
        self._delete([name for name in names if name not in needed and (batch_of(name) or 0) <= committed], committed)

    def _delete(self, files: Collection[str], first_batch: int) -> None:
        try:
            for name in files:
                self._states.delete(name)
            self._manifests.delete_before(first_batch)
        except Exception:
            log.warning("cannot delete old states of the checkpoint; they take up space until the next start", exc_info=True)


def _reported(call: Callable[[], str], mark: str = "") -> str:
    """The result of a call; if it raises, the error, after a mark, since py4j would pass on a traceback only."""
    try:
        return call()
    except HeadraceError as error:
        return f"{mark}{type(error).__module__}.{type(error).__qualname__}: {error}"
    except Exception:
        return f"{mark}{traceback.format_exc()}"
