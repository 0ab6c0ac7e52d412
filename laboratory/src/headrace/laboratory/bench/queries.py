"""The Spark queries of a benchmark, in the session of this process."""

import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.engine import build_session
from headrace.laboratory.bench.inprocess import InProcess

WARM_UP_S = 3.0


def session(master: str | None = None, conf: Mapping[str, str] | None = None, *, quick_start: bool = False) -> SparkSession:
    """Returns a session of Headrace that only logs errors and remembers every micro-batch, by default on all cores."""
    remembers = {"spark.sql.streaming.numRecentProgressUpdates": "100000"}
    spark = build_session(
        "headrace bench", master=master, conf={**remembers, **(conf or {})}, quick_start=quick_start, quiet=True
    )
    # As with `headrace run`: one bucket per core.
    spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)
    spark.dataSource.register(InProcess)
    return spark


def headrace(spark: SparkSession, address: str, **options: str) -> DataFrame:
    """Reads the messages of the bench connectors."""
    reader = spark.readStream.format("headrace").option("gateway", address).option("stream", "bench*/*")
    return reader.options(**options).load()


@contextmanager
def noop(frame: DataFrame) -> Iterator[StreamingQuery]:
    """Runs a frame into Spark's noop sink."""
    with tempfile.TemporaryDirectory() as checkpoint:
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            yield query
        finally:
            query.stop()


def sink_query(frame: DataFrame, address: str, folder: Path) -> StreamingQuery:
    """Starts a query that writes the values of a frame to the sink `bench`, with its checkpoint in a folder."""
    writer = frame.select("value").writeStream.format("headrace").option("gateway", address).option("sink", "bench")
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def stop(query: StreamingQuery) -> None:
    """Stops a query, which may have failed, and waits until it has ended."""
    query.stop()
    with suppress(StreamingQueryException):
        query.awaitTermination()


@contextmanager
def stallable(frame: DataFrame) -> Iterator[threading.Event]:
    """Runs a frame into a sink that blocks while the yielded event is cleared; initially it is set."""
    open_ = threading.Event()
    open_.set()

    def take(batch: DataFrame, _: int) -> None:
        open_.wait()
        batch.write.format("noop").mode("append").save()

    with tempfile.TemporaryDirectory() as checkpoint:
        query = frame.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint).start()
        try:
            yield open_
        finally:
            open_.set()
            query.stop()


def rows(query: StreamingQuery) -> list[int]:
    """Returns the numbers of messages in the micro-batches that had any."""
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def inprocess_rate(spark: SparkSession, batch_rows: int, seconds: float) -> float:
    """Returns the messages per second of the baseline, with micro-batches of `batch_rows` messages."""
    tasks = spark.sparkContext.defaultParallelism
    source = spark.readStream.format("headrace_bench_inprocess").option("rows", batch_rows).option("tasks", tasks).load()
    with noop(source) as query:
        begun = _progress(query, 0.0)
        begun = _progress(query, time.time() + WARM_UP_S)
        ended = _progress(query, time.time() + seconds)
    return float((ended[1] - begun[1]) * batch_rows / (ended[0] - begun[0]))


def _progress(query: StreamingQuery, not_before: float) -> tuple[float, int]:
    """Waits until a micro-batch completes at or after a time. Returns when that was seen, and the batch's number."""
    seen = None
    while True:
        if failure := query.exception():
            raise failure
        done = query.lastProgress
        now = time.time()
        if done is not None:
            if now >= not_before and seen is not None and done["batchId"] != seen:
                return now, done["batchId"]
            seen = done["batchId"]
        time.sleep(0.002)


def spark_cpu_s() -> float:
    """The processor time of the driver, and of Spark's JVM with its processes, also after these have ended, in seconds."""
    own = psutil.Process()
    jvms = [child for child in own.children() if child.name() == "java"]
    total = own.cpu_times().user + own.cpu_times().system
    for process in (each for jvm in jvms for each in (jvm, *jvm.children(recursive=True))):
        times = process.cpu_times()
        total += times.user + times.system + times.children_user + times.children_system
    return float(total)
