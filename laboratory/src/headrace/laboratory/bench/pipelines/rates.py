"""Messages per second through Spark alone: an application against a plain loop, and against Spark's own operators."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from headrace.laboratory.bench.figures import Figure, itself
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.pipelines.apps import MARKET_SPREAD, WORD_COUNT, App, market_spread_by_function
from headrace.laboratory.bench.pipelines.baseline import COUNT, TRANSFORM_WITH_STATE, spark_alone
from headrace.laboratory.bench.pipelines.child import in_child
from headrace.laboratory.bench.pipelines.feed import Feed, MarketFeed, Words
from headrace.laboratory.bench.pipelines.loop import Loop, check, plain_loop
from headrace.laboratory.bench.pipelines.queries import WORKER_MEMORY, Batch, rate, spark_part
from headrace.laboratory.bench.pipelines.sizes import LONG, Sizes
from headrace.pipelines import Pipeline

_FIRST = 20_000
"""The size of the first micro-batch, which does not count, since everything starts in it."""
_UNIT = "messages/s"


def functions_alone(app: App, feed: Feed, say: Say, sizes: Sizes) -> Loop:
    """Runs the plain loop of an application's functions."""
    loop = plain_loop(app, feed, sizes.loop_messages)
    check(feed, loop, sizes.loop_messages)
    say(f"  the functions alone, in a plain loop: {loop.rate:,.0f} messages/s, {loop.each_us:.2f} us each")
    return loop


def blocks_rate(spark: SparkSession, app: App, feed: Feed, sizes: Sizes, pipeline: Callable[[], Pipeline] | None = None) -> float:
    """Returns the messages per second of an application in large micro-batches: the median of some runs."""
    return statistics.median(rate(run) for run in _block_runs(spark, app, feed, sizes, pipeline))


def _block_runs(
    spark: SparkSession, app: App, feed: Feed, sizes: Sizes, pipeline: Callable[[], Pipeline] | None = None
) -> list[list[Batch]]:
    """Returns the micro-batches that count of some runs of an application in large micro-batches."""
    batches = _batches(sizes.batch_messages, sizes.batches)
    return [spark_part(spark, app, feed, batches, pipeline=pipeline)[2:] for _ in range(sizes.runs)]


def market_spread_spark_part(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """Market Spread without gateway and connectors, against its functions in a plain loop."""
    loop = functions_alone(MARKET_SPREAD, MarketFeed(), say, sizes)
    runs = _block_runs(spark, MARKET_SPREAD, MarketFeed(), sizes)
    found = statistics.median(map(rate, runs))
    yield Figure("market_spread_spark_part", found, _UNIT, loop.rate, ">= 800,000", found >= 800_000)
    yield from itself("market_spread_spark_part", [each.messages / each.took_s for run in runs for each in run], _UNIT)
    yield Figure("market_spread_functions_alone", loop.each_us, "us/message")


def word_count_200k_spark_part(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """A word count without gateway and connectors, against Spark's own count over the same source."""
    feed = Words(sizes.words)
    loop = functions_alone(WORD_COUNT, feed, say, sizes)
    found = blocks_rate(spark, WORD_COUNT, feed, sizes)
    native = rate(spark_alone(COUNT, feed, _batches(sizes.batch_messages, sizes.count_batches))[2:])
    say(f"  {found:,.0f} messages/s, Spark's groupBy().count() {native:,.0f}")
    yield Figure("word_count_200k_spark_part", found, _UNIT, native, ">= 2.5 x the baseline", found >= 2.5 * native)
    yield Figure("word_count_200k_functions_alone", loop.each_us, "us/message")


def vs_transform_with_state_350(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """Market Spread against the same functions in Spark's own transformWithState, one row per message."""
    of_size = replace(sizes, batch_messages=sizes.batch_against_350)
    yield _against(spark, say, "vs_transform_with_state_350", MARKET_SPREAD, MarketFeed(), 5, of_size)


def vs_transform_with_state_200k(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """The word count against transformWithState, where Spark has a cost per word and micro-batch."""
    of_size = replace(sizes, batch_messages=sizes.batch_against_200k)
    yield _against(spark, say, "vs_transform_with_state_200k", WORD_COUNT, Words(sizes.words), 100, of_size)


def computed_key(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """Market Spread with a key that a function computes, against the same with the messages' own."""
    own = blocks_rate(spark, MARKET_SPREAD, MarketFeed(), sizes)
    computed = blocks_rate(spark, MARKET_SPREAD, MarketFeed(), sizes, market_spread_by_function)
    say(f"  {computed:,.0f} messages/s, {own:,.0f} with the messages' own key")
    yield Figure("computed_key", computed, _UNIT, own, ">= 0.6 of the baseline", computed >= 0.6 * own)


def without_shuffle(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """What large micro-batches would gain at most if they arrived divided by key: the same on a single core, without shuffle."""
    del spark  # A separate session has the single core.
    found = in_child(
        "shuffle", "local[1]", sizes.words, WORKER_MEMORY, buckets=2, messages=sizes.batch_messages, batches=sizes.count_batches
    )
    for name, rates in found.items():
        without, shuffled = (statistics.median(rates[way]) for way in ("without", "shuffled"))
        rounds = ", ".join(f"{a / b:.2f}" for a, b in zip(rates["without"], rates["shuffled"], strict=True))
        say(f"  {name}: {without:,.0f} messages/s, {shuffled:,.0f} with the shuffle; ratio by rounds {rounds}")
        yield Figure(f"without_shuffle_{name}", without, _UNIT, shuffled)


def curves(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """The rate as a function of the number of keys, the size of micro-batches, and the states."""
    batch = sizes.curve_batch_messages
    by_keys = [(keys, Words(keys), _batches(batch, sizes.curve_batches)) for keys in sizes.curve_keys]
    yield from _curve(spark, say, "keys", by_keys)
    by_size = [batch, batch // 10, batch // 100]
    runs = [(size, Words(10_000), _batches(size, min(100, 6 * batch // size))) for size in by_size]
    yield from _curve(spark, say, "batch", runs)
    loaded = [(keys, Words(keys, keys), [*_pieces(keys, batch), *[batch // 10] * 10]) for keys in sizes.curve_states]
    yield from _curve(spark, say, "state", loaded, last=8)


def _curve(
    spark: SparkSession, say: Say, name: str, runs: Sequence[tuple[int, Words, Sequence[int]]], last: int | None = None
) -> Iterator[Figure]:
    """Yields the messages per second of each run, over its last micro-batches or all but two. The first is the baseline."""
    first = None
    for at, feed, sizes in runs:
        batches = spark_part(spark, WORD_COUNT, feed, sizes)
        found = rate(batches[-last:] if last else batches[2:])
        first = first or found
        say(f"  {name} {at:,}: {found:,.0f} messages/s")
        yield Figure(f"curve_{name}_{at}", found, _UNIT, first)


def _against(spark: SparkSession, say: Say, name: str, app: App, feed: Feed, factor: int, sizes: Sizes) -> Figure:
    given = _batches(sizes.batch_messages, 1)
    own = blocks_rate(spark, app, feed, sizes)
    batches = spark_alone(TRANSFORM_WITH_STATE, feed, given)
    # Its rows of a key are in any order, so orders may precede the opening quotes, which are in the first micro-batch.
    expected = feed.results(sum(given)) - feed.results(_FIRST)
    if batches[1].results != expected:
        raise RuntimeError(f"transformWithState gives {batches[1].results} results in its second micro-batch, not {expected}")
    theirs = rate(batches[1:])
    say(f"  {own:,.0f} messages/s, transformWithState {theirs:,.0f}: {own / theirs:.1f} times as many")
    if sizes.batch_messages < LONG.batch_messages:
        # The target is for large micro-batches: in small ones, both spend more of their time on the micro-batch itself.
        return Figure(name, own, _UNIT, theirs)
    return Figure(name, own, _UNIT, theirs, f">= {factor} x the baseline", own >= factor * theirs)


def _batches(batch: int, count: int) -> list[int]:
    """Returns the sizes of a first micro-batch, one to warm up, unless only one counts, and of all that count."""
    return [_FIRST, *[batch] * (count + (count > 1))]


def _pieces(messages: int, largest: int) -> list[int]:
    return [*[largest] * (messages // largest), *([messages % largest] if messages % largest else [])]
