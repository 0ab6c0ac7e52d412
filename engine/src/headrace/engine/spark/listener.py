"""Monitors the queries of a session in the driver.

Before a query's first batch, the listener rejects asynchronous progress tracking, and records the run as the current one of its
checkpoint. While a query runs, the listener reports committed batches to the gateway, for its sinks. When the query ends, it
detaches the query with the committed positions, so that the last batch is acknowledged before the next start.
"""

import logging
import threading
import time
import weakref
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from headrace.contract.errors import HeadraceError
from headrace.engine.source.options import Options
from headrace.engine.spark.application_sink import fault_of, measure_of, remove_handler, tell_committed, tell_run
from headrace.engine.spark.batches import BatchedRun, BatchReporter, Logged, offsets_of
from headrace.engine.spark.commit_logs import begin_run, end_run
from headrace.engine.spark.counts import log_counts, stages_of
from headrace.engine.spark.detach import detach, options_of
from headrace.engine.spark.execution import Execution
from headrace.engine.spark.heartbeats import Heartbeats
from headrace.engine.spark.jvm_classes import CHECKPOINTS, NAMED_CHECKPOINTS
from headrace.engine.spark.reporter import CommitReporter
from headrace.engine.spark.reporting import ReportedRun, StoppedAtStart
from headrace.engine.spark.run_faults import Executors, failed, local_folders
from headrace.engine.spark.run_start import begin_reported_run, check_not_gone, of_predecessor
from headrace.engine.spark.shared_checkpoint import refuse_local_checkpoint
from headrace.engine.wire.gateway_options import Defaults
from headrace.protocol.v1.metrics_pb2 import RUN_FAULT_ORIGIN_OTHER_RUN, RunFault

ASYNC_REFUSED = (
    "Headrace does not support asyncProgressTrackingEnabled: Spark then plans a batch before the previous one is in the "
    "commit log, and messages would be acknowledged too early. Remove the option from writeStream; nothing was processed"
)
UNNAMED = (
    "%s writes the checkpoint, so its commit log does not name the runs that write it: if two drivers meet on this checkpoint, a "
    "two-phase sink may lose a batch. Set spark.sql.streaming.checkpointFileManagerClass before headrace.engine.register, not "
    "after it"
)

_watching: "weakref.WeakKeyDictionary[SparkSession, Defaults]" = weakref.WeakKeyDictionary()
"""The monitored sessions, with the defaults of their queries' options."""

log = logging.getLogger("headrace.engine")


@dataclass(frozen=True)
class _Watched:
    """A running query with its Headrace sources, and its Headrace sink if it has one.

    The commits of queries that it has replaced are reported too, since no other process does so.
    """

    execution: Execution
    sources: tuple[Options, ...]
    reported: ReportedRun
    followed: tuple[ReportedRun, ...] = ()
    batched: dict[str, BatchedRun] = field(default_factory=dict)
    """The runs of its sources, by pipeline."""


class QueryListener:
    """Implements Spark's listener interface directly on py4j: pyspark's own wrapper copies every progress event.

    Spark calls `onQueryStarted` in the query's own thread before its first batch, and the other methods from its event bus.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._watched: dict[str, _Watched] = {}
        self._batches = BatchReporter()
        self._heartbeats = Heartbeats()
        self._reporter = CommitReporter(lambda: spark.sparkContext._jsc is None)

    def onQueryStarted(self, event: Any) -> None:
        """Starts to monitor a query, or rejects it: it must not use asynchronous progress tracking, for example."""
        try:
            execution, query_id = Execution(self._spark, event.id()), event.id().toString()
            run_id = event.runId().toString()
            try:
                watched = self._watch(execution, query_id, run_id)
                if watched is not None:
                    self._heartbeats.add(run_id, watched.sources)
            except StoppedAtStart:
                pass
            except HeadraceError as error:
                _refuse(execution, query_id, str(error))
                return
            else:
                if watched is not None:
                    self._watched[run_id] = watched
            if execution.is_stopped:
                execution.take_interrupt()
        except Exception:
            log.warning("cannot monitor a query that starts", exc_info=True)

    def onQueryProgress(self, event: Any) -> None:
        """Reports the batch to the gateway if it is in the commit log."""
        fields = {}
        try:
            if not self._watched:
                return
            progress = event.progress()
            watched = self._watched.get(progress.runId().toString())
            if watched is None:
                return
            fields = {"query": watched.reported.query_id}
            if watched.sources:
                self._note_batch(watched, progress)
            if watched.reported.options is None:
                return
            batch = int(progress.batchId())
            # A trigger without data also causes progress events, with the number of the next batch: only the log proves a commit.
            if watched.execution.has_committed(batch, watched.reported.run.id):
                if len(watched.reported.readers) < len(watched.sources):
                    watched.reported.readers |= {offset.pipeline for offset in watched.execution.offsets(batch)}
                if watched.reported.measure is not None:
                    watched.reported.stages_ms += stages_of(progress)
                self._reporter.committed(watched.reported, batch)
                log_counts(progress)
        except Exception:
            log.warning("cannot report a committed batch at once", exc_info=True, extra=fields)

    def _note_batch(self, watched: _Watched, progress: Any) -> None:
        """Tells the gateway the number of a micro-batch that has read something."""
        committed_ms = time.time_ns() // 1_000_000
        for start, end in offsets_of(progress):
            run = watched.batched.get(end.pipeline)
            if run is None:
                options = options_of(watched.sources, end)
                if options is None:
                    continue
                run = watched.batched[end.pipeline] = BatchedRun(options, watched.execution.history)
            self._batches.report(run, Logged(int(progress.batchId()), start, end, committed_ms=committed_ms))

    def onQueryIdle(self, event: Any) -> None:
        """Does nothing; Spark requires the method."""

    def onQueryTerminated(self, event: Any) -> None:
        """Reports what the query has committed, and detaches it from the gateway."""
        fields = {}
        try:
            self._heartbeats.remove(event.runId().toString())
            watched = self._watched.pop(event.runId().toString(), None)
            if watched is None:
                return
            fields = {"query": watched.reported.query_id}
            if watched.reported.options is not None and watched.reported.options.run is not None:
                remove_handler(self._spark, watched.reported.options.run)
            end_run(self._spark, watched.execution.checkpoint, watched.reported.run.id)
            watched.reported.read()
            if (failure := watched.reported.failure) is not None and failure.origin == RUN_FAULT_ORIGIN_OTHER_RUN:
                # A micro-batch has found the other driver before the reports did, which end here.
                watched.reported.tell_replaced()
            for reported in (watched.reported, *watched.followed):
                self._reporter.end(reported)
            if watched.sources:
                detach(watched.execution, watched.reported, watched.sources)
        except Exception:
            text = "cannot detach from the gateway; the last commits are acknowledged at the query's next start"
            log.info(text, exc_info=True, extra=fields)

    def _committed(self, reported: ReportedRun, batch: int) -> None:
        """A batch is in the commit log: the gateway and the handler of an application learn of it."""
        self._reporter.committed(reported, batch)
        if reported.options is not None and reported.options.run is not None:
            tell_committed(reported.options.run, batch)

    class Java:
        """The Java interface, for py4j."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)

    def _watch(self, execution: Execution, query_id: str, run_id: str) -> _Watched | None:
        """Starts to monitor a query that has a Headrace source or sink, as the current run of its checkpoint; None for others.

        Raises:
            HeadraceError: The query must not start.
        """
        defaults = _watching[self._spark]
        sources = execution.sources(defaults)
        if sources and execution.is_asynchronous:
            raise HeadraceError(ASYNC_REFUSED)
        if not sources and not execution.writes_to_sink:
            return None
        try:
            options = execution.sink_options(defaults) if execution.writes_to_sink else None
            shared = any(each.shared_checkpoint for each in (*sources, *((options,) if options is not None else ())))
            refuse_local_checkpoint(self._spark, execution.checkpoint, shared=shared)
            # A query with a position to resume at is the one that completes a rescaled checkpoint.
            completes = any(source.resume_at is not None for source in sources)
            if execution.is_unfinished and not completes:
                raise HeadraceError(
                    f"{execution.checkpoint} is incomplete, since its creation did not finish; delete it, and create it again"
                )
            check_not_gone(execution, sources)
            reported = begin_reported_run(execution, query_id, run_id, options)
            reported.readers |= {source.pipeline for source in sources if source.pipeline is not None}
            last = execution.last_committed()
            if last is not None:
                reported.readers |= {offset.pipeline for offset in execution.offsets(last)}
            elif options is not None and len(reported.readers) < len(sources):
                reported.find_readers = lambda: {offset.pipeline for offset in execution.offsets(0)}
            followed = tuple(of_predecessor(query, reported) for query in execution.predecessors()) if options is not None else ()
            if options is not None and options.run is not None:
                reported.measure = measure_of(options.run)
            executors = Executors(self._spark)
            application = options.run if options is not None else None
            reported.hindered = lambda: executors.lost() or (fault_of(application) if application is not None else None)
            reported.beat = self._heartbeats.send
            reported.find_failure = partial(_failure, self._spark, execution)
            for each in (*followed, reported):
                self._reporter.start(each, lambda: execution.is_stopped)
            if options is not None and options.run is not None:
                tell_run(options.run, query_id, run_id, reported.run.number)
            committed = partial(self._committed, reported)
            named = begin_run(self._spark, execution.checkpoint, query_id, run_id, reported.run.number, committed)
            if not named or execution.file_manager not in (CHECKPOINTS, NAMED_CHECKPOINTS):
                log.warning(UNNAMED, execution.file_manager, extra={"query": query_id})
        except HeadraceError:
            raise
        except Exception as error:
            raise HeadraceError(f"the checkpoint cannot be read or written: {error}; nothing was processed") from error
        return _Watched(execution, sources, reported, followed)


def _failure(spark: SparkSession, execution: Execution) -> RunFault | None:
    """Why a query has ended, if by an error."""
    error = execution.error
    if error is None:
        return None
    committed = execution.last_committed()
    batch = 0 if committed is None else committed + 1
    return failed(batch, error, execution.checkpoint, local_folders(spark))


def _refuse(execution: Execution, query_id: str, reason: str) -> None:
    log.error("%s", reason, extra={"query": query_id})
    try:
        execution.refuse(reason)
    except Exception:
        threading.Thread(target=execution.stop, name="headrace-refusal", daemon=True).start()
        raise


def watch_queries(spark: SparkSession, defaults: Defaults) -> None:
    """Monitors the queries of a session until it ends; if it is monitored already, replaces the defaults."""
    from py4j.java_gateway import java_import  # type: ignore[import-untyped]
    from pyspark.java_gateway import ensure_callback_server_started

    if spark in _watching:
        _watching[spark] = defaults
        return
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    java_import(gateway.jvm, "org.apache.spark.sql.streaming.*")
    listener = gateway.jvm.PythonStreamingQueryListenerWrapper(monitor_session(spark, defaults))
    spark._jsparkSession.streams().addListener(listener)


def monitor_session(spark: SparkSession, defaults: Defaults) -> QueryListener:
    """Returns what monitors the queries of a session, once Spark tells it of them."""
    _watching[spark] = defaults
    return QueryListener(spark)


def monitored_sessions() -> tuple[SparkSession, ...]:
    """The sessions of this process whose queries are monitored."""
    return tuple(_watching)
