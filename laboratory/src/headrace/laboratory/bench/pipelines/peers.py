"""Alternatives for Python users, if they are installed: the same functions on the same messages."""

import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from headrace.laboratory.bench.figures import Figure
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.pipelines.apps import MARKET_SPREAD, WORD_COUNT, App
from headrace.laboratory.bench.pipelines.feed import Feed, MarketFeed, Words, frames
from headrace.laboratory.bench.pipelines.sizes import Sizes

_BATCH = 10_000


def peers(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """Bytewax in one process, which reads from memory, has no transport, and is not durable here."""
    del spark
    try:
        import bytewax
    except ImportError:
        say("  Bytewax is not installed; pip install bytewax")
        return
    say(f"  Bytewax {getattr(bytewax, '__version__', '')}")
    messages = sizes.peer_messages
    yield Figure("market_spread_bytewax", bytewax_rate(MARKET_SPREAD, MarketFeed(), messages), "messages/s")
    yield Figure("word_count_200k_bytewax", bytewax_rate(WORD_COUNT, Words(sizes.words), messages), "messages/s")


def bytewax_rate(app: App, feed: Feed, messages: int) -> float:
    """Returns the messages per second of an application's functions in Bytewax, with keys that are already text.

    Raises:
        RuntimeError: The number of results does not match the messages.
    """
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.testing import TestingSink, TestingSource, run_main

    def step(state: Any, payload: bytes) -> tuple[Any, Any]:
        state = app.state() if state is None else state
        return state, app.function(app.decode(payload), state)

    results: list[Any] = []
    flow = Dataflow("bench")
    stream = op.input("in", flow, TestingSource(list(_keyed(feed, messages)), batch_size=_BATCH))
    found = op.filter_value("there", op.stateful_map("step", stream, step), lambda result: result is not None)
    op.output("out", op.map_value("encode", found, app.encode), TestingSink(results))
    begun = time.perf_counter()
    run_main(flow)
    took = time.perf_counter() - begun
    if len(results) != feed.results(messages):
        raise RuntimeError(f"Bytewax gives {len(results)} results, not {feed.results(messages)}")
    return messages / took


def _keyed(feed: Feed, messages: int) -> Iterator[tuple[str, bytes]]:
    for frame in frames(feed, 0, messages):
        size, key_size = len(frame.values) // frame.rows, len(frame.keys) // frame.rows
        for n in range(frame.rows):
            yield frame.keys[n * key_size : (n + 1) * key_size].decode(), frame.values[n * size : (n + 1) * size]
