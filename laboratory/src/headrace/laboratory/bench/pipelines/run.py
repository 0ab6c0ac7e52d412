"""`headrace bench pipelines`: per-event applications with keyed state, against a plain loop and Spark's own operators."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from pyspark.sql import SparkSession

from headrace.laboratory.bench.figures import Figure, Progress
from headrace.laboratory.bench.parts import Part, Say, run_parts
from headrace.laboratory.bench.pipelines.end_to_end import (
    latency,
    market_spread_columnar,
    market_spread_end_to_end,
    word_count_200k_end_to_end,
)
from headrace.laboratory.bench.pipelines.intervals import interval_join
from headrace.laboratory.bench.pipelines.meetings import hot_key, join_as_of, map_async_part, quantile_part, top_n_part
from headrace.laboratory.bench.pipelines.peers import peers
from headrace.laboratory.bench.pipelines.rates import (
    computed_key,
    curves,
    market_spread_spark_part,
    vs_transform_with_state_200k,
    vs_transform_with_state_350,
    without_shuffle,
    word_count_200k_spark_part,
)
from headrace.laboratory.bench.pipelines.sizes import LONG, QUICK, SHORT, Sizes
from headrace.laboratory.bench.pipelines.state import memory_per_key_bytes, restart_1m_keys_s, small_batch_on_10m_keys

SizedPart = Callable[[SparkSession, Say, Sizes], Iterator[Figure]]

PARTS: dict[str, SizedPart] = {
    "market_spread_end_to_end": market_spread_end_to_end,
    "market_spread_columnar": market_spread_columnar,
    "market_spread_spark_part": market_spread_spark_part,
    "word_count_200k_end_to_end": word_count_200k_end_to_end,
    "word_count_200k_spark_part": word_count_200k_spark_part,
    "vs_transform_with_state_350": vs_transform_with_state_350,
    "vs_transform_with_state_200k": vs_transform_with_state_200k,
    "computed_key": computed_key,
    "without_shuffle": without_shuffle,
    "join_as_of": join_as_of,
    "interval_join": interval_join,
    "hot_key": hot_key,
    "map_async": map_async_part,
    "top_n": top_n_part,
    "quantile": quantile_part,
    "latency": latency,
    "restart_1m_keys_s": restart_1m_keys_s,
    "small_batch_on_10m_keys": small_batch_on_10m_keys,
    "memory_per_key_bytes": memory_per_key_bytes,
    "curves": curves,
}


BUDGET_S = 600
"""How long a run of all parts that are short may take, in seconds."""


def run(
    parts: Sequence[str], quick: bool, say: Progress, *, whole: bool, long: bool, with_peers: bool
) -> tuple[list[Figure], dict[str, Any]]:
    """Runs the named parts, one after the other. Returns their figures and the conditions.

    Args:
        parts: Their names.
        quick: Whether to only check that everything works.
        say: Called with lines of progress.
        whole: Whether these are all parts: then the last figure is how long they took, from the start of the session.
        long: Whether to measure at full size, unless `quick` is set.
        with_peers: Whether to run peers too.
    """
    sizes = QUICK if quick else LONG if long else SHORT
    known = {name: _of_size(part, sizes) for name, part in (PARTS | {"peers": peers}).items()}
    begun = time.monotonic()
    figures, conditions = run_parts(
        known,
        [*parts, *(["peers"] if with_peers else [])],
        quick,
        say,
        quick_start=True,
        long=long,
        sizes=asdict(sizes),
        jvm="as headrace run starts it; Spark's own operators in a JVM with Java's defaults",
        sink="noop for the Spark part; file-sink, every transaction forced to disk, end to end",
        processes="connector, gateway, Spark (local[*]) and sink share all cores",
        message_bytes="quotes 42, orders 53, words 8, stamped messages 61",
    )
    if whole and not quick:
        took = time.monotonic() - begun
        target = () if long else (None, f"<= {BUDGET_S}", took <= BUDGET_S)
        figures.append(Figure("whole_run_s", took, "s", *target))
    return figures, conditions


def _of_size(part: SizedPart, sizes: Sizes) -> Part:
    return lambda spark, say, quick: part(spark, say, sizes)
