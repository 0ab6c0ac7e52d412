"""Watches a session's queries from the driver.

It refuses async progress tracking before a query's first batch, and makes each start of a query the present run of its
checkpoint. When a query ends it tells the gateway what the commit log proves, so that the last batch is acknowledged without
waiting for the next start. What a query writes to a sink is settled all along.
"""

import logging
import threading
import weakref
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import grpc
from pyspark.sql import SparkSession

from headrace.engine._checkpoint_log import Followed
from headrace.engine._connection import Connection, to_error
from headrace.engine._counts import log_counts
from headrace.engine._errors import HeadraceError
from headrace.engine._execution import Execution
from headrace.engine._fetch import PipelineRun
from headrace.engine._gateway_options import Defaults
from headrace.engine._options import Options
from headrace.engine._position import Offset, to_stream_positions
from headrace.engine._settling import Log, Settled, Settling
from headrace.engine._shared_checkpoint import refuse_local_checkpoint
from headrace.engine._sink_options import SinkOptions
from headrace.engine._votes import Votes
from headrace.protocol.v1 import engine_pb2 as pb

DETACH_TIMEOUT_S = 2.0
ASYNC_REFUSED = (
    "Headrace refuses asyncProgressTrackingEnabled: Spark then asks for the next batch before the one before is in the "
    "commit log, and messages would be acknowledged that a crash still needs. Remove the option from writeStream; "
    "nothing was processed"
)

_watching: "weakref.WeakKeyDictionary[SparkSession, Defaults]" = weakref.WeakKeyDictionary()
"""The sessions that are watched, with the defaults of their queries' options."""

log = logging.getLogger("headrace.engine")


@dataclass(frozen=True)
class _Watched:
    """A running query with its Headrace sources, and its Headrace sink if it has one.

    Queries in whose place it goes on are settled with it: nobody else knows what they have committed.
    """

    execution: Execution
    sources: tuple[Options, ...]
    settled: Settled
    followed: tuple[Settled, ...] = ()


class QueryWatch:
    """Spark's listener interface, implemented straight on py4j: pyspark's own wrapper copies every progress event.

    Spark calls `onQueryStarted` in the query's own thread before its first batch, and the others from its event bus.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._watched: dict[str, _Watched] = {}
        self._settling = Settling(lambda: spark.sparkContext._jsc is None)

    def onQueryStarted(self, event: Any) -> None:
        """Refuses a query that tracks its progress asynchronously, or whose sink would not learn what is committed."""
        try:
            execution = Execution(self._spark, event.id())
            try:
                watched = self._watch(execution, event.id().toString(), event.runId().toString())
            except HeadraceError as error:
                _refuse(execution, str(error))
                return
            if watched is not None:
                self._watched[event.runId().toString()] = watched
        except Exception:
            log.warning("cannot watch a query that starts", exc_info=True)

    def onQueryProgress(self, event: Any) -> None:
        """Has the batch settled that is in the commit log now."""
        try:
            if not any(watched.settled.options for watched in list(self._watched.values())):
                return
            progress = event.progress()
            watched = self._watched.get(progress.runId().toString())
            if watched is None or watched.settled.options is None:
                return
            batch = int(progress.batchId())
            # Progress also exists for triggers that ran nothing, with the batch that would be next; only the log is proof.
            if watched.execution.is_committed(batch):
                if len(watched.settled.readers) < len(watched.sources):
                    watched.settled.readers |= {offset.pipeline for offset in watched.execution.offsets(batch)}
                self._settling.committed(watched.settled, batch)
                log_counts(progress)
        except Exception:
            log.warning("cannot settle a batch at once", exc_info=True)

    def onQueryIdle(self, event: Any) -> None:
        """Needs nothing."""

    def onQueryTerminated(self, event: Any) -> None:
        """Tells the gateway what the query has committed."""
        try:
            watched = self._watched.pop(event.runId().toString(), None)
            if watched is None:
                return
            for settled in (watched.settled, *watched.followed):
                self._settling.end(settled)
            last = watched.execution.last_committed() if watched.sources else None
            if last is not None:
                for offset in watched.execution.offsets(last):
                    _take_leave(watched.sources, offset)
        except Exception:
            log.info("cannot take leave of the gateway; it learns what was committed at the query's next start", exc_info=True)

    class Java:
        """What py4j asks for."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)

    def _watch(self, execution: Execution, query_id: str, run_id: str) -> _Watched | None:
        """A query that starts and has a Headrace source or sink, as its checkpoint's present run; None for others.

        Raises:
            HeadraceError: the query must not start.
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
            settled = _begun(execution, query_id, run_id, options)
            settled.readers |= {source.pipeline for source in sources if source.pipeline is not None}
            last = execution.last_committed()
            if last is not None:
                settled.readers |= {offset.pipeline for offset in execution.offsets(last)}
            elif options is not None and len(settled.readers) < len(sources):
                settled.find_readers = lambda: {offset.pipeline for offset in execution.offsets(0)}
            followed = tuple(_of_followed(query, settled) for query in execution.followed()) if options is not None else ()
            for each in (*followed, settled):
                self._settling.start(each)
        except HeadraceError:
            raise
        except Exception as error:
            raise HeadraceError(f"the checkpoint cannot be read or written: {error}; nothing was processed") from error
        return _Watched(execution, sources, settled, followed)


def _begun(execution: Execution, query_id: str, run_id: str, options: SinkOptions | None) -> Settled:
    """A run that is the present one of its checkpoint from now on.

    Raises:
        Replaced: another one began at the same time.
    """
    runs, last = execution.runs, execution.last_committed()
    run = runs.begin(run_id, 0 if last is None else last + 1, options.sinks if options is not None else ())
    execution.tell_tasks(run.number)
    commits = Log(last=execution.last_committed, first_run=execution.first_batch, fail=partial(_fail, execution))
    votes = Votes(execution.read_votes, execution.write_votes)
    return Settled(query_id, run, options, commits, runs, votes, committed=last)


def _of_followed(query: Followed, settled: Settled) -> Settled:
    """What was committed by a query in whose place another one goes on."""
    run = replace(settled.run, first_batch=query.committed + 1, earlier=query.segments)
    return Settled(query.query, run, settled.options, committed=query.committed)


def _fail(execution: Execution, reason: str) -> None:
    """Ends a query that runs. Its own thread may wait for the caller's."""
    threading.Thread(target=execution.fail, args=(reason,), name="headrace-replaced", daemon=True).start()


def _refuse(execution: Execution, reason: str) -> None:
    log.error("%s", reason)
    try:
        execution.refuse(reason)
    except Exception:
        threading.Thread(target=execution.stop, name="headrace-refusal", daemon=True).start()
        raise


def _take_leave(sources: tuple[Options, ...], offset: Offset) -> None:
    if offset.run is None:
        return
    named = [s for s in sources if s.pipeline == offset.pipeline]
    unnamed = {s for s in sources if s.pipeline is None}
    candidates = named or (list(unnamed) if len(unnamed) == 1 else [])
    if not candidates:
        return
    options, connection = candidates[0], Connection.of(candidates[0])
    request = pb.DetachRequest(
        pipeline=PipelineRun(offset.pipeline, offset.run, offset.run_id, offset.checkpoint).to_proto(options),
        committed=to_stream_positions(offset.streams),
    )
    try:
        connection.stub().Detach(request, timeout=DETACH_TIMEOUT_S, metadata=connection.metadata)
    except grpc.RpcError as error:
        log.info("the gateway was not told what was committed last: %s", to_error(error, connection))


def watch_queries(spark: SparkSession, defaults: Defaults) -> None:
    """Watches the queries of a session until it ends; where it is watched already, the defaults are new."""
    from py4j.java_gateway import java_import  # type: ignore[import-untyped]
    from pyspark.java_gateway import ensure_callback_server_started

    if spark in _watching:
        _watching[spark] = defaults
        return
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    java_import(gateway.jvm, "org.apache.spark.sql.streaming.*")
    listener = gateway.jvm.PythonStreamingQueryListenerWrapper(QueryWatch(spark))
    _watching[spark] = defaults
    spark._jsparkSession.streams().addListener(listener)
