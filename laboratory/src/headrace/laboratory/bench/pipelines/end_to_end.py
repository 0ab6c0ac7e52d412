"""Applications end to end: connector, gateway, Spark, a two-phase file sink, and acknowledgements."""

import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.laboratory.bench.figures import Figure
from headrace.laboratory.bench.latency.measure import latencies
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.pipelines import columnar
from headrace.laboratory.bench.pipelines.apps import MARKET_SPREAD, RESULT_BYTES, WORD_COUNT, App, stamps
from headrace.laboratory.bench.pipelines.feed import WORD_BYTES, Feed, MarketFeed, Words
from headrace.laboratory.bench.pipelines.queries import running
from headrace.laboratory.bench.pipelines.rates import functions_alone
from headrace.laboratory.bench.pipelines.sizes import Sizes
from headrace.laboratory.bench.rig import (
    KEYED_SOURCES,
    Restartable,
    acknowledged_rate,
    connector,
    gateway,
    sink_command,
    wait_for,
)
from headrace.laboratory.bench.sources import quantile_ms

LENGTH_BYTES = 4
_MAX_S = 900.0


def market_spread_end_to_end(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """Market Spread from a connector to the acknowledgement of the last message, against its functions in a plain loop."""
    loop = functions_alone(MARKET_SPREAD, MarketFeed(), say, sizes)
    found = end_to_end(spark, MARKET_SPREAD, "market", MarketFeed(), LENGTH_BYTES + RESULT_BYTES, say, sizes)
    target = ">= 0.5 of the baseline"
    yield Figure("market_spread_end_to_end", found, "messages/s", loop.rate, target, found >= 0.5 * loop.rate)


def market_spread_columnar(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """The same with columnar steps, against the functions that take one value each."""
    app = replace(MARKET_SPREAD, pipeline=columnar.market_spread)
    each = end_to_end(spark, MARKET_SPREAD, "market", MarketFeed(), LENGTH_BYTES + RESULT_BYTES, say, sizes)
    found = end_to_end(spark, app, "market", MarketFeed(), LENGTH_BYTES + RESULT_BYTES, say, sizes)
    yield Figure("market_spread_columnar", found, "messages/s", each, ">= 700,000", found >= 700_000)


def word_count_200k_end_to_end(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """A word count of 200,000 words, likewise."""
    feed = Words(sizes.words)
    loop = functions_alone(WORD_COUNT, feed, say, sizes)
    found = end_to_end(spark, WORD_COUNT, "words", feed, LENGTH_BYTES + WORD_BYTES, say, sizes, keys=feed.keys)
    yield Figure("word_count_200k_end_to_end", found, "messages/s", loop.rate, ">= 350,000", found >= 350_000)


def end_to_end(
    spark: SparkSession, app: App, kind: str, feed: Feed, result_bytes: int, say: Say, sizes: Sizes, **options: int
) -> float:
    """Returns the messages acknowledged per second: the median of some runs after a short one."""
    rates = []
    for number in range(1 + sizes.end_to_end_runs):
        count = sizes.end_to_end_messages // (4 if number == 0 else 1)
        found = drain(spark, app, kind, feed, result_bytes, count, **options)
        say(f"  {found:,.0f} messages/s{' to warm up' if number == 0 else ''}")
        rates.append(found)
    return statistics.median(rates[1:])


def drain(spark: SparkSession, app: App, kind: str, feed: Feed, result_bytes: int, messages: int, **options: int) -> float:
    """Sends messages; returns how many per second were acknowledged after the first quarter.

    Raises:
        RuntimeError: The number of results in the sink's files does not match the messages.
    """
    return drained(partial(running, app.pipeline(), spark), kind, feed, result_bytes, messages, **options)


Query = Callable[[str, Path], AbstractContextManager[StreamingQuery | None]]
"""Runs an application between the streams and sinks of the gateway at an address, with its checkpoint in a folder.

Yields the query if it runs in this process.
"""


def drained(query: Query, kind: str, feed: Feed, result_bytes: int, messages: int, **options: int) -> float:
    """Like `drain`, for any way of running the application."""
    expected = feed.results(messages) * result_bytes
    with tempfile.TemporaryDirectory() as name, gateway() as running_gateway:
        address, folder = running_gateway.address, Path(name)
        with (
            Restartable(sink_command(address, folder / "out", "length-prefixed")),
            query(address, folder) as started,
            connector(address, kind, module=KEYED_SOURCES, messages=messages, **options) as source,
        ):
            moments = source.result(_MAX_S, started)["acknowledged"]
            wait_for("all results to be visible", lambda: _size(folder / "out") >= expected, 60)
            found = _size(folder / "out")
    if found != expected:
        raise RuntimeError(f"{messages} messages led to {found // result_bytes} results, not {expected // result_bytes}")
    return acknowledged_rate(moments)


def latency(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """Time from when a message was due until it is visible in the file, at 10,000 messages/s over 350 keys of state.

    The states exist before the first message is due, and the first seconds do not count.
    """
    seen = latencies(partial(running, stamps(), spark), sizes.latency).visible
    p50, p99 = quantile_ms(seen, 0.50), quantile_ms(seen, 0.99)
    say(f"  p50 {p50:.0f} ms, p99 {p99:.0f} ms over {len(seen):,} messages")
    yield Figure("latency_p50", p50, "ms", None, "<= 250, aim 104", p50 <= 250)
    yield Figure("latency_p99", p99, "ms", None, "<= 450, aim 141", p99 <= 450)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.bin")) if folder.exists() else 0
