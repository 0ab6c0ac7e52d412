"""Messages in tables of files, compared to Spark's own file sink behind the same source, in processor time of Spark."""

import gc
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.laboratory.bench.figures import Figure, itself
from headrace.laboratory.bench.pipelines.queries import running
from headrace.laboratory.bench.queries import session, spark_cpu_s
from headrace.laboratory.bench.rig import KEYED_SOURCES, connector, gateway
from headrace.pipelines import Pipeline

_COLUMNS = pa.schema([("value", pa.binary()), ("sequence", pa.int64())])
_MESSAGES, _QUICK_MESSAGES = 2_000_000, 20_000
_ROUNDS, _QUICK_ROUNDS = 3, 1
_WORDS = 200_000
_TARGET = 0.9
_MAX_S = 900.0
_Query = Callable[[SparkSession, str, Path], AbstractContextManager[StreamingQuery]]


def lake(format: str, quick: bool) -> Iterator[Figure]:
    """Yields the messages that a second of processor time writes, and the ratio to Spark's own file sink, in turns with it."""
    spark = session(quick_start=quick)
    messages = _QUICK_MESSAGES if quick else _MESSAGES
    own, sparks = list[float](), list[float]()
    try:
        for number in range(_QUICK_ROUNDS if quick else 1 + _ROUNDS):
            here, there = (_rate(spark, query, messages) for query in (_application(format), _file_sink))
            if quick or number:  # In the first round, Java compiles what it runs.
                own.append(here)
                sparks.append(there)
    finally:
        spark.stop()
    found, usual = statistics.median(own), statistics.median(sparks)
    yield Figure(f"lake_{format}.messages_cpu_s", found, "messages/s of CPU", usual)
    yield Figure(f"lake_{format}.ratio", found / usual, "times", target=f">= {_TARGET:g}", met=found / usual >= _TARGET)
    yield from itself(f"lake_{format}.messages_cpu_s", own, "messages/s of CPU")


def _application(format: str) -> _Query:
    @contextmanager
    def run(spark: SparkSession, address: str, folder: Path) -> Iterator[StreamingQuery]:
        app, more = Pipeline("lake"), dict[str, Any]()
        if format == "iceberg":
            more = {"table": "bench.lake.words", "options": {"type": "sql", "uri": f"sqlite:///{folder}/catalog"}}
        app.source("words/*").lake(folder / "table", schema=_COLUMNS, format=format, **more)
        with running(app, spark, address, folder) as query:
            yield query

    return run


@contextmanager
def _file_sink(spark: SparkSession, address: str, folder: Path) -> Iterator[StreamingQuery]:
    """The same columns, compressed alike, by `writeStream.format("parquet")`."""
    messages = spark.readStream.format("headrace").options(gateway=address, stream="words/*", loopbackGateway="true").load()
    writer = messages.select(*_COLUMNS.names).writeStream.format("parquet").option("compression", "zstd")
    query = writer.options(path=str(folder / "table"), checkpointLocation=str(folder / "checkpoint")).start()
    try:
        yield query
    finally:
        query.stop()


def _rate(spark: SparkSession, query: _Query, messages: int) -> float:
    """Has a query write all messages of a connector to a table; returns the messages for each second of processor time.

    Raises:
        RuntimeError: The table has another number of rows.
    """
    gc.collect()
    with tempfile.TemporaryDirectory() as name, gateway() as running_gateway:
        folder, begun = Path(name), spark_cpu_s()
        with (
            query(spark, running_gateway.address, folder) as started,
            connector(running_gateway.address, "words", module=KEYED_SOURCES, messages=messages, keys=_WORDS) as source,
        ):
            source.result(_MAX_S, started)
        took = spark_cpu_s() - begun
        files = sorted(path for path in (folder / "table").rglob("*.parquet") if "_headrace" not in path.parts)
        rows = ds.dataset([str(path) for path in files]).count_rows()
    if rows != messages:
        raise RuntimeError(f"the table has {rows} rows of {messages} messages")
    return messages / took
