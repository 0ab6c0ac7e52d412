"""The sink of applications' queries in the JVM, and the driver's handlers of their micro-batches."""

import atexit
from collections.abc import Callable
from typing import Any, Protocol

from pyspark.sql import SparkSession

from headrace.engine.spark.jvm_classes import APPLICATION_SINK, NO_SHUFFLE, install
from headrace.protocol.v1.metrics_pb2 import RunFault, RunMetrics

FORMAT = APPLICATION_SINK
"""The name for `writeStream.format(...)`."""


class Handler(Protocol):
    """Handles the micro-batches of one query, in the driver: `ApplicationSink.Handler`, with a method for its end."""

    def began(self, query: str, run: str, number: int) -> None:
        """The query has begun a run with this number, both with Spark's ids."""

    def committed(self, batch: int) -> None:
        """Spark has committed a micro-batch. Returns at once."""

    def finish(self) -> None:
        """The process ends, perhaps before the end of the query is known."""

    def begin(self, run: str | None, batch: str) -> str:
        """The states that a micro-batch of a run continues from; what is wrong, after `!`, if it cannot begin."""

    def commit(self, batch: int, reports: bytes) -> str | None:
        """Receives the reports of all tasks; returns what is wrong."""

    def hindered(self) -> RunFault | None:
        """What hinders the run; None if nothing does."""

    def metrics(self, committed: int | None) -> RunMetrics:
        """The totals of the run since it started, given the last micro-batch in the commit log."""

    def abort(self, batch: int) -> None:
        """A micro-batch has failed."""

    def close(self) -> None:
        """The query has ended."""


_handlers: dict[str, Handler] = {}


def add_handler(spark: SparkSession, run: str, handler: Handler) -> None:
    """Prepares a session for a query with this sink, and the option `run`.

    Raises:
        HeadraceError: The JVM cannot load the class of the sink.
    """
    install(spark)
    _skip_shuffles(spark)
    jvm: Any = spark._jvm
    jvm.headrace.engine.ApplicationSink.register(run, handler)
    _handlers[run] = handler


def tell_run(run: str, query_id: str, run_id: str, number: int) -> None:
    """Tells the handler of a query, if there is one, that its run has begun."""
    handler = _handlers.get(run)
    if handler is not None:
        handler.began(query_id, run_id, number)


def tell_committed(run: str, batch: int) -> None:
    """Tells the handler of a query, if there is one, that a micro-batch is in the commit log."""
    handler = _handlers.get(run)
    if handler is not None:
        handler.committed(batch)


def measure_of(run: str) -> Callable[[int | None], RunMetrics] | None:
    """What returns the totals of the run of a query's handler, also after its end; None if it has no handler."""
    handler = _handlers.get(run)
    return None if handler is None else handler.metrics


def fault_of(run: str) -> RunFault | None:
    """What hinders the run of a query's handler; None if nothing does, or it has no handler."""
    handler = _handlers.get(run)
    return None if handler is None else handler.hindered()


def remove_handler(spark: SparkSession, run: str) -> None:
    """Ends the handler of a query that has ended."""
    handler = _handlers.pop(run, None)
    if handler is None:
        return
    jvm: Any = spark._jvm
    jvm.headrace.engine.ApplicationSink.remove(run)
    handler.close()


@atexit.register
def _finish_all() -> None:
    """Ends what must not wait: `awaitTermination` may return before Spark has notified its listeners."""
    for handler in list(_handlers.values()):
        handler.finish()


def _skip_shuffles(spark: SparkSession) -> None:
    """Adds the rule for micro-batches that one task reads to the rules of the session's optimizer, once."""
    jvm: Any = spark._jvm
    methods = spark._jsparkSession.experimental()
    rules = list(jvm.scala.jdk.javaapi.CollectionConverters.asJava(methods.extraOptimizations()))
    if not any(rule.getClass().getName() == NO_SHUFFLE for rule in rules):
        getattr(methods, "extraOptimizations_$eq")(jvm.PythonUtils.toSeq([*rules, jvm.headrace.engine.NoShuffle()]))
