"""What the driver sees of a running query: its sources, its sink, and its checkpoint's logs, by way of py4j."""

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from headrace.engine._checkpoint_log import CheckpointLog, Followed
from headrace.engine._folder import HadoopFolder
from headrace.engine._gateway_options import Defaults
from headrace.engine._options import Options, parse
from headrace.engine._position import Offset
from headrace.engine._runs import RUNS, RunLog
from headrace.engine._sink_options import RUN_NUMBER, SinkOptions, parse_sink
from headrace.engine._votes import VOTES

FORMAT = "headrace"


class Execution:
    """A running query. Everything here may raise what py4j raises."""

    def __init__(self, spark: SparkSession, query_id: Any) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm
        self._query: Any = spark._jsparkSession.streams().get(query_id)
        self._execution = self._query.streamingQuery() if hasattr(self._query, "streamingQuery") else self._query

    @property
    def is_asynchronous(self) -> bool:
        """Whether it tracks its progress asynchronously."""
        return "AsyncProgressTracking" in self._execution.getClass().getName()

    def sources(self, defaults: Defaults) -> tuple[Options, ...]:
        """The options of its Headrace sources.

        Raises:
            OptionError: one is not valid.
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
        # Sinks of other classes may refuse to say their name.
        return bool(sink.getClass().getSimpleName() == "PythonTable" and sink.name().lower() == FORMAT)

    def sink_options(self, defaults: Defaults) -> SinkOptions:
        """The options of its Headrace sink.

        Raises:
            OptionError: one is not valid.
        """
        # Nothing public has them before the first batch is planned.
        kind = self._execution.getClass()
        while kind.getSimpleName() != "MicroBatchExecution":
            kind = kind.getSuperclass()
        given = kind.getDeclaredField("extraOptions")
        given.setAccessible(True)
        return parse_sink(dict(self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(given.get(self._execution))), defaults)

    @property
    def checkpoint(self) -> str:
        """Its checkpoint's folder, with the file system that Spark found it on."""
        return str(self._execution.resolvedCheckpointRoot())

    @property
    def runs(self) -> RunLog:
        """The runs that its checkpoint knows."""
        return RunLog(HadoopFolder(self._spark, f"{self.checkpoint}/{RUNS}"))

    def tell_tasks(self, run_number: int) -> None:
        """Has every task of the query know the number of its run."""
        # Spark hands the settings of a query's own session to its tasks.
        self._execution.sparkSessionForStream().conf().set(RUN_NUMBER, str(run_number))

    def first_batch(self) -> int | None:
        """The first batch that the run has executed, or would as its next; None where Spark has not yet said."""
        last = self._execution.lastExecution()
        progress = self._execution.recentProgress()
        if len(progress):
            return int(progress[0].batchId())
        return None if last is None else int(last.currentBatchId())

    def followed(self) -> tuple[Followed, ...]:
        """The queries in whose place it goes on."""
        return CheckpointLog(self._spark, self.checkpoint).followed()

    def last_committed(self) -> int | None:
        """The last batch in the commit log; None where it is empty."""
        last = self._execution.commitLog().getLatestBatchId()
        return int(last.get()) if last.isDefined() else None

    def is_committed(self, batch: int) -> bool:
        """Whether a batch is in the commit log."""
        return bool(self._execution.commitLog().get(batch).isDefined())

    def offsets(self, batch: int) -> Iterator[Offset]:
        """Where a batch ends in the Headrace sources.

        Raises:
            CheckpointError: an offset is not in the form that the source writes.
        """
        logged = self._execution.offsetLog().get(batch)
        if not logged.isDefined():
            return
        documents = logged.get().offsets()
        for document in (documents.apply(i) for i in range(documents.size())):
            if document.isDefined():
                value = json.loads(document.get().json())
                if isinstance(value, dict) and value.keys() >= {"pipeline", "streams"}:
                    yield Offset.from_json(value)

    def read_votes(self) -> str | None:
        """What its sinks have voted for, as it was written down last; None where nothing was."""
        path = self._votes_path()
        files = self._execution.commitLog().fileManager()
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_votes(self, text: str) -> None:
        """Writes down what its sinks have voted for."""
        files = self._execution.commitLog().fileManager()
        stream = files.createAtomic(self._votes_path(), True)
        stream.write(bytearray(text.encode()))
        stream.close()

    def _votes_path(self) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.checkpoint}/{VOTES}")

    def refuse(self, reason: str) -> None:
        """Ends the query before its first batch, with an error that `exception()` and `awaitTermination()` report."""
        self._set_cause(reason)
        # What stop() does first. All of stop() would wait for the thread that waits for this callback.
        runtime = self._jvm.org.apache.spark.sql.execution.streaming.runtime
        self._execution.state().set(getattr(getattr(runtime, "TERMINATED$"), "MODULE$"))

    def fail(self, reason: str) -> None:
        """Ends the query between batches, or within one, with an error that `exception()` and `awaitTermination()` report."""
        self._set_cause(reason)
        self.stop()

    def stop(self) -> None:
        """Stops the query; waits for its thread."""
        self._query.stop()

    def _set_cause(self, reason: str) -> None:
        cause = self._jvm.java.lang.UnsupportedOperationException(reason)
        parameters = self._jvm.PythonUtils.toScalaMap(self._jvm.java.util.HashMap())
        streaming = self._jvm.org.apache.spark.sql.streaming
        failure = streaming.StreamingQueryException(reason, cause, "STREAM_FAILED", parameters)
        getattr(self._execution, "streamDeathCause_$eq")(failure)
