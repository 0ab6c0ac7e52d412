"""Files of the past through an application, compared to Spark's own reading of them, in processor time of Spark."""

import gc
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.engine import History, start
from headrace.laboratory.bench.figures import Figure, itself
from headrace.laboratory.bench.queries import session, spark_cpu_s
from headrace.laboratory.bench.rig import gateway
from headrace.pipelines import Pipeline

_COLUMNS = pa.schema([("value", pa.binary()), ("event_time", pa.timestamp("us", tz="UTC"))])
_MESSAGES, _QUICK_MESSAGES = 2_000_000, 20_000
_FILES = 4
_ROUNDS, _QUICK_ROUNDS = 3, 1
_MAX_S = 900
_Query = Callable[[SparkSession, str, Path, Path], AbstractContextManager[StreamingQuery]]


def history(quick: bool) -> Iterator[Figure]:
    """Yields the messages of files that a second of processor time brings into a table, and the ratio to Spark's own reading."""
    spark = session(quick_start=quick)
    own, sparks = list[float](), list[float]()
    with tempfile.TemporaryDirectory() as name:
        files, messages = Path(name), _QUICK_MESSAGES if quick else _MESSAGES
        _write(files, messages)
        try:
            for number in range(_QUICK_ROUNDS if quick else 1 + _ROUNDS):
                here, there = (_rate(spark, query, files, messages) for query in (_application, _own_reading))
                if quick or number:  # In the first round, Java compiles what it runs.
                    own.append(here)
                    sparks.append(there)
        finally:
            spark.stop()
    found, usual = statistics.median(own), statistics.median(sparks)
    yield Figure("history.messages_cpu_s", found, "messages/s of CPU", usual)
    yield Figure("history.ratio", found / usual, "times")
    yield from itself("history.messages_cpu_s", own, "messages/s of CPU")


def _write(folder: Path, messages: int) -> None:
    """Writes messages of 100 bytes, one for each millisecond, in the order of time, to files of the same size."""
    each = messages // _FILES
    for number in range(_FILES):
        begin = number * each
        times = pa.array(range(1_000 * begin, 1_000 * (begin + each), 1_000), pa.timestamp("us", tz="UTC"))
        values = pa.array([b"%0100d" % place for place in range(begin, begin + each)])
        pq.write_table(pa.table([values, times], schema=_COLUMNS), folder / f"{number}.parquet")


@contextmanager
def _application(spark: SparkSession, address: str, files: Path, folder: Path) -> Iterator[StreamingQuery]:
    app = Pipeline("past")
    app.source("past/*").lake(folder / "table", schema=_COLUMNS)
    # With any master, the entire benchmark is on this machine.
    options = {"gateway": address, "sharedCheckpoint": "true", "loopbackGateway": "true"}
    past = History([str(files)])
    query = start(app, spark, folder / "checkpoint", options=options, available_now=True, history=past)
    try:
        yield query
    finally:
        query.stop()


@contextmanager
def _own_reading(spark: SparkSession, address: str, files: Path, folder: Path) -> Iterator[StreamingQuery]:
    """The same files to a table that is compressed alike, by `readStream` and `writeStream` of Parquet."""
    messages = spark.readStream.schema("value BINARY, event_time TIMESTAMP").parquet(str(files))
    writer = messages.writeStream.format("parquet").option("compression", "zstd").trigger(availableNow=True)
    query = writer.options(path=str(folder / "table"), checkpointLocation=str(folder / "checkpoint")).start()
    try:
        yield query
    finally:
        query.stop()


def _rate(spark: SparkSession, query: _Query, files: Path, messages: int) -> float:
    """Has a query bring all messages of files into a table; returns the messages for each second of processor time.

    Raises:
        RuntimeError: The query did not end, or the table has another number of rows.
    """
    gc.collect()
    with tempfile.TemporaryDirectory() as name, gateway() as running_gateway:
        folder, begun = Path(name), spark_cpu_s()
        with query(spark, running_gateway.address, files, folder) as started:
            if not started.awaitTermination(_MAX_S):
                raise RuntimeError(f"the query has not ended after {_MAX_S} s")
        took = spark_cpu_s() - begun
        written = sorted(path for path in (folder / "table").rglob("*.parquet") if "_headrace" not in path.parts)
        rows = ds.dataset([str(path) for path in written]).count_rows()
    if rows != messages:
        raise RuntimeError(f"the table has {rows} rows of {messages} messages")
    return messages / took
