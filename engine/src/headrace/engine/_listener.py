"""Watches a session's queries from the driver.

It refuses async progress tracking before a query's first batch, and when a query ends it tells the gateway what the
commit log proves, so that the last batch is acknowledged without waiting for the next start.
"""

import json
import logging
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
from pyspark.sql import SparkSession

from headrace.engine._connection import Connection, to_error
from headrace.engine._errors import HeadraceError
from headrace.engine._fetch import PipelineRun
from headrace.engine._options import Defaults, Options, parse
from headrace.engine._position import Offset, to_stream_positions
from headrace.protocol.v1 import engine_pb2 as pb

DETACH_TIMEOUT_S = 2.0
ASYNC_REFUSED = (
    "Headrace refuses asyncProgressTrackingEnabled: Spark then asks for the next batch before the one before is in the "
    "commit log, and messages would be acknowledged that a crash still needs. Remove the option from writeStream; "
    "nothing was processed"
)

_watching: "weakref.WeakSet[SparkSession]" = weakref.WeakSet()

log = logging.getLogger("headrace.engine")


@dataclass(frozen=True)
class _Watched:
    """A running query with its Headrace sources."""

    execution: Any
    sources: tuple[Options, ...]


class QueryWatch:
    """Spark's listener interface, implemented straight on py4j: pyspark's own wrapper copies every progress event.

    Spark calls `onQueryStarted` in the query's own thread before its first batch, and the others from its event bus.
    """

    def __init__(self, spark: SparkSession, defaults: Defaults) -> None:
        self._spark = spark
        self._defaults = defaults
        self._watched: dict[str, _Watched] = {}

    def onQueryStarted(self, event: Any) -> None:
        """Refuses a query that tracks its progress asynchronously."""
        try:
            query = self._spark._jsparkSession.streams().get(event.id())
            execution = query.streamingQuery() if hasattr(query, "streamingQuery") else query
            sources = tuple(self._sources(execution))
            if not sources:
                return
            if "AsyncProgressTracking" in execution.getClass().getName():
                self._refuse(query, execution)
                return
            self._watched[event.runId().toString()] = _Watched(execution, sources)
        except Exception:
            log.warning("cannot watch a query that starts", exc_info=True)

    def onQueryProgress(self, event: Any) -> None:
        """Needs nothing: the commit log says all when the query ends."""

    def onQueryIdle(self, event: Any) -> None:
        """Needs nothing."""

    def onQueryTerminated(self, event: Any) -> None:
        """Tells the gateway what the query has committed."""
        try:
            watched = self._watched.pop(event.runId().toString(), None)
            if watched is not None:
                for offset in _committed(watched.execution):
                    _take_leave(watched.sources, offset)
        except Exception:
            log.info("cannot take leave of the gateway; it learns what was committed at the query's next start", exc_info=True)

    class Java:
        """What py4j asks for."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)

    def _sources(self, execution: Any) -> Iterator[Options]:
        leaves = execution.analyzedPlan().collectLeaves()
        for leaf in (leaves.apply(i) for i in range(leaves.size())):
            if leaf.getClass().getSimpleName() == "StreamingRelationV2" and leaf.sourceName() == "headrace":
                yield parse(dict(leaf.extraOptions().asCaseSensitiveMap()), self._defaults)

    def _refuse(self, query: Any, execution: Any) -> None:
        """Ends a query before its first batch, with an error that `exception()` and `awaitTermination()` report."""
        log.error("%s", ASYNC_REFUSED)
        jvm: Any = self._spark._jvm
        try:
            cause = jvm.java.lang.UnsupportedOperationException(ASYNC_REFUSED)
            parameters = jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap())
            streaming = jvm.org.apache.spark.sql.streaming
            failure = streaming.StreamingQueryException(ASYNC_REFUSED, cause, "STREAM_FAILED", parameters)
            getattr(execution, "streamDeathCause_$eq")(failure)
            # What stop() does first. All of stop() would wait for the thread that waits for this callback.
            runtime = jvm.org.apache.spark.sql.execution.streaming.runtime
            execution.state().set(getattr(getattr(runtime, "TERMINATED$"), "MODULE$"))
        except Exception:
            threading.Thread(target=query.stop, name="headrace-refusal", daemon=True).start()
            raise


def _committed(execution: Any) -> Iterator[Offset]:
    """The Headrace offsets of the last batch in the commit log."""
    last = execution.commitLog().getLatestBatchId()
    if not last.isDefined():
        return
    offsets = execution.offsetLog().get(last.get())
    if not offsets.isDefined():
        return
    documents = offsets.get().offsets()
    for document in (documents.apply(i) for i in range(documents.size())):
        if document.isDefined():
            value = json.loads(document.get().json())
            if isinstance(value, dict) and value.keys() >= {"pipeline", "streams", "run"}:
                yield Offset.from_json(value)


def _take_leave(sources: tuple[Options, ...], offset: Offset) -> None:
    named = [s for s in sources if s.pipeline == offset.pipeline]
    unnamed = {s for s in sources if s.pipeline is None}
    candidates = named or (list(unnamed) if len(unnamed) == 1 else [])
    if not candidates:
        return
    options, connection = candidates[0], Connection.of(candidates[0])
    request = pb.DetachRequest(
        pipeline=PipelineRun(offset.pipeline, offset.run or 0).to_proto(options),
        committed=to_stream_positions(offset.streams),
    )
    try:
        connection.stub().Detach(request, timeout=DETACH_TIMEOUT_S, metadata=connection.metadata)
    except grpc.RpcError as error:
        log.info("the gateway was not told what was committed last: %s", to_error(error, connection))


def watch_queries(spark: SparkSession, defaults: Defaults) -> None:
    """Watches the queries of a session until it ends; once, however often it is called.

    Raises:
        HeadraceError: the session is a remote one.
    """
    from py4j.java_gateway import java_import  # type: ignore[import-untyped]
    from pyspark.java_gateway import ensure_callback_server_started

    if spark in _watching:
        return
    gateway = spark.sparkContext._gateway
    if gateway is None:
        raise HeadraceError("Headrace needs a session in this process; Spark Connect is not supported")
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    java_import(gateway.jvm, "org.apache.spark.sql.streaming.*")
    listener = gateway.jvm.PythonStreamingQueryListenerWrapper(QueryWatch(spark, defaults))
    spark._jsparkSession.streams().addListener(listener)
    _watching.add(spark)
