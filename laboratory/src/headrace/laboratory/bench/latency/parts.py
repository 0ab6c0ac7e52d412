"""The parts of the benchmark: the latency of applications and of plain queries, compared to Spark's own floor."""

import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.laboratory.bench.figures import Figure, itself
from headrace.laboratory.bench.latency.hops import table
from headrace.laboratory.bench.latency.lines import command
from headrace.laboratory.bench.latency.measure import Latencies, Pace, latencies
from headrace.laboratory.bench.latency.plot import Series
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.pipelines.apps import stamps
from headrace.laboratory.bench.pipelines.queries import running
from headrace.laboratory.bench.queries import headrace, sink_query
from headrace.laboratory.bench.rig import wait_for
from headrace.laboratory.bench.schedule import BURST_S, BURST_TIMES
from headrace.laboratory.bench.sources import quantile_ms

_KEYS = 350
_INTERVAL = "300 milliseconds"
"""Longer than a micro-batch, so that the query is between two of them when it is stopped; Spark logs an error otherwise."""
_EACH_S = 10.0
"""How long a micro-batch may take, in seconds."""
RATE = 10_000
RATES = (100, 1_000, 10_000, 100_000)
REAL_TIME_RATES = (1_000, 10_000, 100_000)


def warm_up(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """Runs all queries for a while without a figure, since the JVM is still compiling."""
    _floor(spark, quick)
    _stateful(spark, Pace(RATE, 0, 20))
    _stateless(spark, Pace(RATE, 0, 10))
    say("  done; from here on, the first seconds of each query do not count")
    yield from ()


def stateful(plotted: Series, spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """An application with 350 keys of state, against a nearly empty micro-batch of Spark's own right before and after it."""
    floor = _floor(spark, quick)
    seen = _stateful(spark, _pace(RATE, quick, seconds=40))
    again = _floor(spark, quick)
    lowest = statistics.median([*floor, *again])
    p50, p99 = _shown(plotted, say, "stateful", seen)
    acknowledged = quantile_ms(seen.acknowledged, 0.50)
    micro_batch = f"Spark's own micro-batch {lowest:.0f} ms, the median of {len(floor) + len(again)}"
    say(f"  acknowledged p50 {acknowledged:.0f} ms; {micro_batch}")
    yield Figure("stateful_p50", p50, "ms", lowest, "<= 104", p50 <= 104)
    yield Figure("stateful_p99", p99, "ms", None, "<= 250", p99 <= 250)
    yield Figure("ack_p50", acknowledged, "ms")
    yield Figure("floor_p50", lowest, "ms")
    yield from itself("floor_p50", [statistics.median(floor), statistics.median(again)], "ms")
    yield Figure("stateful_over_floor", p50 / lowest, "times")


def real_time(plotted: Series, spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """The same application in real-time mode, to a sink that writes at once; and what each hop of a message takes."""
    seen = latencies(partial(running, stamps(), spark, real_time=True), _pace(RATE, quick, seconds=40), command, noting=True)
    p50, p99 = _shown(plotted, say, "stateful, real time", seen)
    for line in table(seen.hops):
        say(line)
    say("  processor time a message: " + ", ".join(f"{role} {us:.1f} us" for role, us in seen.processor_us.items()))
    yield Figure("real_time_p50", p50, "ms", None, "<= 3", p50 <= 3)
    yield Figure("real_time_p99", p99, "ms", None, "<= 10", p99 <= 10)
    yield Figure("real_time_p999", quantile_ms(seen.visible, 0.999), "ms")
    for hop, seconds in seen.hops.items():
        yield Figure(f"real_time_hop_{hop}_p50", quantile_ms(seconds, 0.50), "ms")
        yield Figure(f"real_time_hop_{hop}_p99", quantile_ms(seconds, 0.99), "ms")
    for role, us in seen.processor_us.items():
        yield Figure(f"real_time_processor_{role}", us, "us/message")


def real_time_rates(plotted: Series, spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """The same at several rates, and in a burst of ten times the rate, which lasts a second."""
    query = partial(running, stamps(), spark, real_time=True)
    for rate in REAL_TIME_RATES[:1] if quick else REAL_TIME_RATES:
        seen = latencies(query, _pace(rate, quick, seconds=20), command)
        found = *_shown(plotted, say, f"stateful, real time, {rate:,}/s", seen), quantile_ms(seen.visible, 0.999)
        for name, value in zip(("p50", "p99", "p999"), found, strict=True):
            yield Figure(f"real_time_{rate}_{name}", value, "ms")
    pace = Pace(RATE // 10, 1, 4, burst=True) if quick else Pace(RATE, 10, 20, burst=True)
    seen = latencies(query, pace, command)
    begun = pace.schedule.burst_at
    assert begun is not None, "the pace has a burst"
    ended = begun + BURST_S
    before = sorted(seen.took[seen.due < begun].tolist())
    during = sorted(seen.took[(seen.due >= begun) & (seen.due <= ended)].tolist())
    steady = quantile_ms(before, 0.999) / 1000
    late = seen.due[(seen.due > ended) & (seen.took > steady)]
    text = f"{BURST_TIMES} times {pace.rate:,}/s for {BURST_S:g} s"
    say(f"  {text}: p50 {quantile_ms(during, 0.5):.0f} ms, p99 {quantile_ms(during, 0.99):.0f} ms")
    for name, q in (("p50", 0.50), ("p99", 0.99), ("p999", 0.999)):
        yield Figure(f"real_time_burst_{name}", quantile_ms(during, q), "ms", quantile_ms(before, q))
    # Until then, messages took longer than all but one of a thousand before the burst.
    yield Figure("real_time_burst_over_s", float(late.max() - ended) if len(late) else 0.0, "s")


def stateless(plotted: Series, spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """A plain query from the source to the sink, without an application."""
    p50, p99 = _shown(plotted, say, "stateless", _stateless(spark, _pace(RATE, quick, seconds=25)))
    yield Figure("stateless_p50", p50, "ms")
    yield Figure("stateless_p99", p99, "ms")


def curves(plotted: Series, spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """The application at several rates, against the lowest one."""
    first = None
    for rate in RATES[:2] if quick else RATES:
        found = _shown(plotted, say, f"stateful, {rate:,}/s", _stateful(spark, _pace(rate, quick, seconds=20)))
        first = first or found
        for name, value, baseline in zip(("p50", "p99"), found, first, strict=True):
            yield Figure(f"curve_{rate}_{name}", value, "ms", baseline)


def _pace(rate: int, quick: bool, seconds: float) -> Pace:
    return Pace(rate, 1, 2) if quick else Pace(rate, 10, seconds)


def _floor(spark: SparkSession, quick: bool) -> list[float]:
    return floor_ms(spark, 1, 2) if quick else floor_ms(spark, 20, 50)


def _stateful(spark: SparkSession, pace: Pace) -> Latencies:
    return latencies(partial(running, stamps(), spark), pace)


def _stateless(spark: SparkSession, pace: Pace) -> Latencies:
    return latencies(partial(_plain, spark), pace)


@contextmanager
def _plain(spark: SparkSession, address: str, folder: Path) -> Iterator[StreamingQuery]:
    query = sink_query(headrace(spark, address, stream="stamps/*"), address, folder)
    try:
        yield query
    finally:
        query.stop()


def _shown(plotted: Series, say: Say, name: str, seen: Latencies) -> tuple[float, float]:
    """Adds the latencies to the plot. Returns the median and the 99th percentile, in milliseconds."""
    plotted[name] = seen.visible
    p50, p99 = quantile_ms(seen.visible, 0.50), quantile_ms(seen.visible, 0.99)
    say(f"  {name}: p50 {p50:.0f} ms, p99 {p99:.0f} ms over {len(seen.visible):,} messages")
    return p50, p99


def floor_ms(spark: SparkSession, skip: int, batches: int) -> list[float]:
    """Returns the durations of consecutive micro-batches, in milliseconds, from planning each to its entry in the commit log.

    Each has one row, which an aggregation in the JVM counts by key. Its state is in the state store of the session, and its
    result goes to Spark's noop sink.

    Args:
        spark: The session.
        skip: The number of first micro-batches that do not count.
        batches: The number of batches that count.
    """
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1).load()
    counts = source.groupBy((source["value"] % _KEYS).alias("key")).count()
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = counts.writeStream.format("noop").outputMode("update").option("checkpointLocation", checkpoint)
        query = writer.trigger(processingTime=_INTERVAL).start()
        try:
            wait_for("Spark's own micro-batches", partial(_reached, query, skip + batches), _EACH_S * (skip + batches))
            progress = list(query.recentProgress)
        finally:
            query.stop()
    return [float(each["durationMs"]["triggerExecution"]) for each in progress[skip : skip + batches]]


def _reached(query: StreamingQuery, batches: int) -> bool:
    """Whether this many micro-batches were reported."""
    if failure := query.exception():
        raise failure
    last = query.lastProgress
    return last is not None and int(last["batchId"]) + 1 >= batches
