"""Access to a running query in the driver, through py4j: its sources, its sink, and the logs of its checkpoint."""

import contextlib
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from headrace.engine.checkpoint.folder import Folder, HadoopFolder
from headrace.engine.checkpoint.log import CheckpointLog, Predecessor, owner_named_in
from headrace.engine.checkpoint.position import Offset
from headrace.engine.checkpoint.runs import RUNS, RunLog
from headrace.engine.checkpoint.votes import VOTES
from headrace.engine.sink.options import RUN_NUMBER, SinkOptions, parse_sink
from headrace.engine.source.options import Options, parse
from headrace.engine.spark.batches import Logged
from headrace.engine.wire.gateway_options import Defaults

FORMAT = "headrace"
INTERRUPT_MS = 5_000
"""How long to wait for the interrupt by which a stop follows its new state, in milliseconds: Spark cancels jobs between."""
_TABLES = {"PythonTable", "Target"}
"""The classes of the sinks of queries and of applications."""


class Execution:
    """A running query. All methods may raise py4j errors."""

    def __init__(self, spark: SparkSession, query_id: Any) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm
        self._query: Any = spark._jsparkSession.streams().get(query_id)
        self._execution = self._query.streamingQuery() if hasattr(self._query, "streamingQuery") else self._query

    @property
    def is_asynchronous(self) -> bool:
        """Whether it uses asynchronous progress tracking."""
        return "AsyncProgressTracking" in self._execution.getClass().getName()

    def sources(self, defaults: Defaults) -> tuple[Options, ...]:
        """The options of its Headrace sources.

        Raises:
            OptionError: An option is invalid.
        """
        leaves = self._execution.analyzedPlan().collectLeaves()
        return tuple(
            parse(dict(leaf.extraOptions().asCaseSensitiveMap()), defaults)
            for leaf in (leaves.apply(i) for i in range(leaves.size()))
            if leaf.getClass().getSimpleName() == "StreamingRelationV2" and leaf.sourceName() == FORMAT
        )

    @property
    def writes_to_sink(self) -> bool:
        """Whether its sink is a Headrace sink."""
        sink = self._execution.sink()
        # name() raises for sinks of some other classes.
        return bool(sink.getClass().getSimpleName() in _TABLES and sink.name().lower() == FORMAT)

    def sink_options(self, defaults: Defaults) -> SinkOptions:
        """The options of its Headrace sink.

        Raises:
            OptionError: An option is invalid.
        """
        # There is no public access to them before the first batch is planned.
        kind = self._execution.getClass()
        while kind.getSimpleName() != "MicroBatchExecution":
            kind = kind.getSuperclass()
        given = kind.getDeclaredField("extraOptions")
        given.setAccessible(True)
        return parse_sink(dict(self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(given.get(self._execution))), defaults)

    @property
    def checkpoint(self) -> str:
        """The folder of its checkpoint, with the scheme of its file system."""
        return str(self._execution.resolvedCheckpointRoot())

    @property
    def is_unfinished(self) -> bool:
        """Whether the creation of its checkpoint by a command did not finish."""
        return CheckpointLog(self._spark, self.checkpoint).is_unfinished()

    @property
    def runs(self) -> RunLog:
        """The runs that are recorded in its checkpoint."""
        return RunLog(HadoopFolder(self._spark, f"{self.checkpoint}/{RUNS}"))

    @property
    def commits(self) -> Folder:
        """The folder of its commit log."""
        return HadoopFolder(self._spark, f"{self.checkpoint}/commits")

    def set_run_number(self, run_number: int) -> None:
        """Passes the number of the run to every task of the query."""
        # Spark passes the settings of a query's own session to its tasks.
        self._execution.sparkSessionForStream().conf().set(RUN_NUMBER, str(run_number))

    @property
    def file_manager(self) -> str:
        """The class that writes the files of its checkpoint."""
        return str(self._execution.commitLog().fileManager().getClass().getName())

    def owner(self, batch: int) -> str | None:
        """The run that wrote a batch's entry in the commit log; None if the entry is gone or does not name it."""
        text = self._text(f"commits/{batch}")
        return None if text is None else owner_named_in(text)

    def predecessors(self) -> tuple[Predecessor, ...]:
        """The queries that it has replaced."""
        return CheckpointLog(self._spark, self.checkpoint).predecessors()

    def last_committed(self) -> int | None:
        """The last batch in the commit log; None if the log is empty."""
        last = self._execution.commitLog().getLatestBatchId()
        return int(last.get()) if last.isDefined() else None

    def has_committed(self, batch: int, run: str) -> bool:
        """Whether a run that has executed a batch has committed it, so far as its entry in the commit log says who has."""
        return self.owner(batch) in (run, None) and bool(self._execution.commitLog().get(batch).isDefined())

    def offsets(self, batch: int) -> Iterator[Offset]:
        """The offsets of the Headrace sources at the end of a batch.

        Raises:
            CheckpointError: An offset is not an offset of this source.
        """
        logged = self._execution.offsetLog().get(batch)
        if not logged.isDefined():
            return
        documents = logged.get().offsets()
        for document in (documents.apply(i) for i in range(documents.size())):
            if document.isDefined():
                offset = Offset.parse(document.get().json())
                if offset is not None:
                    yield offset

    def history(self, pipeline: str, limit: int) -> list[Logged]:
        """What its logs still have of the last micro-batches of a pipeline, at most `limit`, by ascending number."""
        planned, committed = (HadoopFolder(self._spark, f"{self.checkpoint}/{log}").modified() for log in ("offsets", "commits"))
        numbers = sorted(int(name) for name in planned if name.isdecimal())[-limit - 1 :]
        ends = {number: self._offset_of(pipeline, number) for number in numbers}
        found = []
        for number in numbers:
            end = ends[number]
            # Without the offset before, nobody knows where the first one begins that the log still has.
            if end is not None and (number == 0 or number - 1 in ends):
                name = str(number)
                found.append(Logged(number, ends.get(number - 1), end, planned[name], committed.get(name)))
        return found[-limit:]

    def _offset_of(self, pipeline: str, batch: int) -> Offset | None:
        return next((offset for offset in self.offsets(batch) if offset.pipeline == pipeline), None)

    def read_votes(self) -> str | None:
        """The votes of its sinks, as last written to the checkpoint; None if none were written."""
        return self._text(VOTES)

    def write_votes(self, text: str) -> None:
        """Writes the votes of its sinks to the checkpoint."""
        files = self._execution.commitLog().fileManager()
        stream = files.createAtomic(self._path(VOTES), True)
        stream.write(bytearray(text.encode()))
        stream.close()

    def _text(self, name: str) -> str | None:
        """The content of a file of its checkpoint; None if it does not exist."""
        path, files = self._path(name), self._execution.commitLog().fileManager()
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.checkpoint}/{name}")

    @property
    def is_stopped(self) -> bool:
        """Whether the query was stopped or has ended: its thread may still wait for a vote."""
        return not self._query.isActive()

    def take_interrupt(self) -> None:
        """Waits for the interrupt by which a stop follows its new state, and takes it from the calling thread of the JVM.

        To be called by the query's own thread, once it was stopped while Spark told listeners of its start: of a thread that has
        an interrupt then, Spark takes it for one of the listener, and removes that from the session.
        """
        with contextlib.suppress(Py4JJavaError):  # An InterruptedException.
            self._jvm.java.lang.Thread.sleep(INTERRUPT_MS)

    @property
    def error(self) -> str | None:
        """The error by which it has ended, with its causes, as Spark tells it to listeners; None if it runs, or was stopped."""
        failure = self._query.exception()
        cause = failure.get().cause() if failure.isDefined() else None
        return None if cause is None else str(self._jvm.org.apache.spark.util.Utils.exceptionString(cause))

    def refuse(self, reason: str) -> None:
        """Ends the query before its first batch, with an error that `exception()` and `awaitTermination()` report."""
        self._set_cause(reason)
        # This is the first step of stop(), which would wait for the query's thread, which in turn waits for this callback.
        runtime = self._jvm.org.apache.spark.sql.execution.streaming.runtime
        self._execution.state().set(getattr(getattr(runtime, "TERMINATED$"), "MODULE$"))

    def fail(self, reason: str) -> None:
        """Ends a running query, with an error that `exception()` and `awaitTermination()` report."""
        self._set_cause(reason)
        self.stop()

    def stop(self) -> None:
        """Stops the query, and waits for its thread."""
        self._query.stop()

    def _set_cause(self, reason: str) -> None:
        cause = self._jvm.java.lang.UnsupportedOperationException(reason)
        parameters = self._jvm.PythonUtils.toScalaMap(self._jvm.java.util.HashMap())
        streaming = self._jvm.org.apache.spark.sql.streaming
        failure = streaming.StreamingQueryException(reason, cause, "STREAM_FAILED", parameters)
        getattr(self._execution, "streamDeathCause_$eq")(failure)
