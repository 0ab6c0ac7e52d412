"""The same Kafka topic through Headrace and through Spark's own Kafka source, into the same stateful query."""

import secrets
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from kafka import KafkaProducer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from headrace.contract.units import parse_size
from headrace.engine import register
from headrace.engine.applications.stages.plan import Plan
from headrace.engine.applications.starting.input import Input
from headrace.engine.applications.states.keys import bucket_ids
from headrace.laboratory.bench.connectors import client
from headrace.laboratory.bench.connectors.chain import connector, last_committed
from headrace.laboratory.bench.connectors.kafka import BATCH_BYTES, Kafka, send
from headrace.laboratory.bench.connectors.system import BODY, System
from headrace.laboratory.bench.figures import Figure
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.pipelines.apps import App, Count, count
from headrace.laboratory.bench.pipelines.feed import WORD_BYTES, Words
from headrace.laboratory.bench.pipelines.queries import WORKER_MEMORY, RowProcessor, discarding
from headrace.laboratory.bench.queries import headrace
from headrace.laboratory.bench.rig import gateway, wait_for
from headrace.pipelines import Pipeline

COORDINATES = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
"""The Maven coordinates of Spark's own source: the newest that is published, which runs on Spark 4.3."""

KEYS = 350
_MAX_S = 240.0


def word(payload: bytes) -> str:
    """Returns the word at the beginning of a message; the rest is padding."""
    return payload[:WORD_BYTES].decode()


def words_of_kafka() -> Pipeline:
    """Counts words, with one state object for each."""
    app = Pipeline("bench-kafka-words")
    app.source("bench/*", decode=word).key_by().stateful(count, Count, name="counts").sink("bench")
    return app


APP = App(words_of_kafka, word, {}, count, Count, "n bigint", str.encode)

Query = Callable[[SparkSession, Kafka, str], AbstractContextManager[StreamingQuery]]


@dataclass(frozen=True, slots=True)
class Load:
    """The number of messages that warm a query up, and the number that are measured."""

    warm: int
    measured: int


def kafka_vs_spark_source(broker: System, spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """Counts words with `transformWithState` after either source, and with Headrace's own pipeline.

    The messages are in an open transaction while others warm the query up, and become visible together when it is committed. The
    time counts from this commit to the last micro-batch's entry in the commit log.
    """
    assert isinstance(broker, Kafka)
    load = Load(2_000, 20_000) if quick else Load(20_000, 200_000)
    queries: dict[str, Query] = {
        "Headrace": through_headrace,
        "Spark's source": through_spark,
        "Headrace's pipeline": through_pipeline,
    }
    rates: dict[str, list[float]] = {name: [] for name in queries}
    for _ in range(1 if quick else 3):
        for name, query in queries.items():
            rates[name].append(measure(spark, broker, query, load))
            say(f"  {name}: {rates[name][-1]:,.0f} messages/s")
    ours, baseline, pipeline = (statistics.median(rates[name]) for name in queries)
    target = ">= the baseline"
    yield Figure("kafka_vs_spark_source", ours, "messages/s", baseline, target, ours >= baseline)
    yield Figure("kafka_pipeline_vs_spark_source", pipeline, "messages/s", baseline, target, pipeline >= baseline)


def measure(spark: SparkSession, kafka: Kafka, query: Query, load: Load) -> float:
    """Returns the messages per second of one query on a separate topic.

    Raises:
        RuntimeError: The results do not match the messages.
    """
    total = load.warm + load.measured
    with ExitStack() as stack:
        place = stack.enter_context(client.place_of(kafka, f"headrace-bench-{secrets.token_hex(4)}"))
        kafka.make(place)
        producer = KafkaProducer(bootstrap_servers=kafka.servers, linger_ms=20, batch_size=BATCH_BYTES, transactional_id=place)
        stack.callback(producer.close)
        producer.init_transactions()
        running = stack.enter_context(query(spark, kafka, place))
        for begin, end in ((0, load.warm // 2), (load.warm // 2, load.warm), (load.warm, total)):
            producer.begin_transaction()
            send(producer, place, messages(begin, end))
            begun = time.time()
            producer.commit_transaction()
            wait_for(f"{end} messages", partial(_has_arrived, running, end), _MAX_S)
        found, results = arrived(running), observed(running, "leaving")
        took = last_committed(running) - begun
    expected = Words(KEYS).results(total)
    if (found, results) != (total, expected):
        raise RuntimeError(f"{found} of {total} messages arrived, with {results} results, not {expected}")
    return load.measured / took


def messages(begin: int, end: int) -> Iterator[tuple[bytes, bytes]]:
    """Yields words as keys, and values of the usual size that begin with them."""
    for number in Words(KEYS).numbers(begin, end):
        key = b"%0*d" % (WORD_BYTES, number)
        yield key, key + BODY[WORD_BYTES:]


@contextmanager
def through_headrace(spark: SparkSession, kafka: Kafka, place: str) -> Iterator[StreamingQuery]:
    """Counts words in Spark that arrive through connector and gateway."""
    with (
        gateway() as running,
        connector(kafka, place, "bench", running.address),
        noop(counted(headrace(spark, running.address))) as query,
    ):
        yield query


@contextmanager
def through_spark(spark: SparkSession, kafka: Kafka, place: str) -> Iterator[StreamingQuery]:
    """Counts words in Spark that arrive through Spark's own source."""
    reader = spark.readStream.format("kafka").option("subscribe", place).option("startingOffsets", "earliest")
    reader = reader.option("kafka.bootstrap.servers", kafka.url).option("kafka.isolation.level", "read_committed")
    with noop(counted(reader.load())) as query:
        yield query


@contextmanager
def through_pipeline(spark: SparkSession, kafka: Kafka, place: str) -> Iterator[StreamingQuery]:
    """Counts words in a Headrace application, whose results are discarded."""
    graph = words_of_kafka().graph
    buckets = bucket_ids(int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
    plan = Plan(graph, buckets, graph.name, uuid.uuid4().hex, parse_size(WORKER_MEMORY))
    register(spark, {graph.name: Input(plan)})
    with gateway() as running, connector(kafka, place, "bench", running.address):
        blocks = headrace(spark, running.address, application=graph.name, stream="bench/*")
        arriving = blocks.observe("arriving", sql.sum("messages").alias("messages"))
        with tempfile.TemporaryDirectory() as checkpoint, discarding(plan, arriving, checkpoint, "leaving") as query:
            yield query


def counted(arriving: DataFrame) -> DataFrame:
    """Counts words with Spark's own `transformWithState`, one row per message."""
    seen = arriving.observe("arriving", sql.count("*").alias("messages"))
    grouped = seen.select("key", "value").groupBy("key")
    results = grouped.transformWithState(RowProcessor(APP), "value binary", "append", "none")
    return results.observe("leaving", sql.count("*").alias("messages"))


@contextmanager
def noop(frame: DataFrame) -> Iterator[StreamingQuery]:
    """Runs a frame into Spark's noop sink."""
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = frame.writeStream.format("noop").outputMode("append").option("checkpointLocation", checkpoint)
        query = writer.start()
        try:
            yield query
        finally:
            query.stop()


def arrived(query: StreamingQuery) -> int:
    """Returns the number of messages in completed micro-batches.

    Raises:
        StreamingQueryException: The query has failed.
    """
    if failure := query.exception():
        raise failure
    return observed(query, "arriving")


def _has_arrived(query: StreamingQuery, messages: int) -> bool:
    return arrived(query) >= messages


def observed(query: StreamingQuery, where: str) -> int:
    """Returns the number of messages observed, as rows or in blocks."""
    batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
    return sum(int(batch["observedMetrics"][where]["messages"] or 0) for batch in batches)
