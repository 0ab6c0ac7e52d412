"""From one Kafka topic to another, in Headrace's real-time mode, by either client library, and in Spark's own."""

import secrets
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.laboratory.bench.connectors import client
from headrace.laboratory.bench.connectors.chain import connector
from headrace.laboratory.bench.connectors.kafka import Kafka
from headrace.laboratory.bench.connectors.system import System
from headrace.laboratory.bench.figures import Figure, itself
from headrace.laboratory.bench.latency.hops import Noted, noted, table
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.pipelines.queries import running
from headrace.laboratory.bench.rig import Restartable, gateway
from headrace.laboratory.bench.sources import quantile_ms
from headrace.pipelines import Pipeline

RATE = 1_000
PARTITIONS = 1
"""Spark's mode needs a core for each partition, all at the same time."""
_TRIGGER = "5 seconds"
"""Spark's mode accepts no shorter one."""
_MAX_S = 120.0
_QUANTILES = {"p50": 0.50, "p99": 0.99, "p999": 0.999}

Query = Callable[[SparkSession, Kafka, str, str], AbstractContextManager[StreamingQuery]]


def kafka_real_time(broker: System, spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """Time from when a message is due to be published in one topic until a consumer reads it from the other, in turns."""
    assert isinstance(broker, Kafka)
    warm, seconds = (6, 6) if quick else (20, 20)
    queries: dict[str, Query] = {"Headrace": through_headrace, "Spark": through_spark}
    found: dict[str, dict[str, list[float]]] = {name: {q: [] for q in _QUANTILES} for name in queries}
    for _ in range(1 if quick else 2):
        for name, query in queries.items():
            with noted() as notes:
                seen = measure(spark, broker, query, warm, seconds)
                hops = _hops(notes, seen) if query is through_headrace else []
            taken = sorted(each.seconds for each in seen)
            for quantile, share in _QUANTILES.items():
                found[name][quantile].append(quantile_ms(taken, share))
            say(f"  {name}: " + ", ".join(f"{quantile} {values[-1]:.1f} ms" for quantile, values in found[name].items()))
            for line in hops:
                say(line)
    for quantile in _QUANTILES:
        ours, baseline = (statistics.median(found[name][quantile]) for name in queries)
        target, is_met = ("<= 1.5 of Spark's", ours <= 1.5 * baseline) if quantile == "p50" else ("", None)
        yield Figure(f"{broker.name}_real_time_{quantile}", ours, "ms", baseline, target, is_met)
    yield from itself(f"{broker.name}_real_time_p50", found["Headrace"]["p50"], "ms")


class Seen(NamedTuple):
    """A message that was read from the target.

    Attributes:
        number: Its number, from 1.
        due: When it was due to be published, in seconds since 1970.
        read: When it was read.
    """

    number: int
    due: float
    read: float

    @property
    def seconds(self) -> float:
        """Its latency."""
        return self.read - self.due


def measure(spark: SparkSession, kafka: Kafka, query: Query, warm: float, seconds: float) -> list[Seen]:
    """Returns all messages but the first ones.

    Raises:
        RuntimeError: A client failed, or saw fewer messages.
    """
    names = [f"headrace-bench-{secrets.token_hex(4)}" for _ in range(2)]
    with client.place_of(kafka, names[0]) as source, client.place_of(kafka, names[1]) as target:
        for name in names:
            kafka.make(name, PARTITIONS)
        with (
            query(spark, kafka, source, target) as started,
            client.watching(kafka, target, int(RATE * (warm + seconds))) as watch,
            client.publishing(kafka, source, RATE, warm + seconds),
        ):
            seen = watch.result(warm + seconds + _MAX_S, started)["seen"]
    begin = min(stamp for stamp, _ in seen) + warm
    return [Seen(number, *each) for number, each in enumerate(sorted(seen), 1) if each[0] > begin]


def _hops(notes: Noted, seen: Sequence[Seen]) -> list[str]:
    """The lines of a table: how long each hop has taken, and the processor time of each process for a message."""
    numbers, due, read = (np.array(column) for column in zip(*seen, strict=True))
    used = notes.processor_us(int(numbers[-1]))
    processors = "  processor time a message: " + ", ".join(f"{role} {us:.1f} us" for role, us in used.items())
    return [*table(notes.seconds(due, read, numbers, first=1)), processors]


def returning() -> Pipeline:
    """Builds an application that returns its input."""
    app = Pipeline("bench-kafka-real-time")
    app.source("bench/*", decode=bytes).sink("bench")
    return app


@contextmanager
def through_headrace(spark: SparkSession, kafka: Kafka, source: str, target: str) -> Iterator[StreamingQuery]:
    """Runs a connector, a gateway, an application in real-time mode, and an at-least-once sink."""
    with tempfile.TemporaryDirectory() as name, gateway() as at:
        command = ["-m", "headrace.laboratory.bench.connectors.produced", at.address, kafka.name, kafka.url, target]
        application = partial(running, returning(), spark, real_time=True)
        with Restartable(command), application(at.address, Path(name)) as query, connector(kafka, source, "bench", at.address):
            yield query


@contextmanager
def through_spark(spark: SparkSession, kafka: Kafka, source: str, target: str) -> Iterator[StreamingQuery]:
    """Runs a query of Spark's own in its real-time mode."""
    reader = spark.readStream.format("kafka").option("subscribe", source).option("startingOffsets", "earliest")
    values = reader.option("kafka.bootstrap.servers", kafka.url).load().select("value")
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = values.writeStream.format("kafka").option("kafka.bootstrap.servers", kafka.url).option("topic", target)
        writer = writer.option("checkpointLocation", checkpoint).outputMode("update")
        query = writer.trigger(realTime=_TRIGGER).start()  # type: ignore[call-overload]  # Its types omit it.
        try:
            yield query
        finally:
            query.stop()
