"""`headrace bench pipelines`: per-event applications with keyed state, against a plain loop and Spark's own operators."""

from collections.abc import Sequence
from typing import Any

from headrace.laboratory.bench.figures import Figure
from headrace.laboratory.bench.parts import Part, Say, run_parts
from headrace.laboratory.bench.pipelines.end_to_end import (
    latency,
    market_spread_columnar,
    market_spread_end_to_end,
    word_count_200k_end_to_end,
)
from headrace.laboratory.bench.pipelines.peers import peers
from headrace.laboratory.bench.pipelines.rates import (
    computed_key,
    curves,
    market_spread_spark_part,
    vs_transform_with_state_200k,
    vs_transform_with_state_350,
    word_count_200k_spark_part,
)
from headrace.laboratory.bench.pipelines.state import memory_per_key_bytes, restart_1m_keys_s, small_batch_on_10m_keys

PARTS: dict[str, Part] = {
    "market_spread_end_to_end": market_spread_end_to_end,
    "market_spread_columnar": market_spread_columnar,
    "market_spread_spark_part": market_spread_spark_part,
    "word_count_200k_end_to_end": word_count_200k_end_to_end,
    "word_count_200k_spark_part": word_count_200k_spark_part,
    "vs_transform_with_state_350": vs_transform_with_state_350,
    "vs_transform_with_state_200k": vs_transform_with_state_200k,
    "computed_key": computed_key,
    "small_batch_on_10m_keys": small_batch_on_10m_keys,
    "latency": latency,
    "restart_1m_keys_s": restart_1m_keys_s,
    "memory_per_key_bytes": memory_per_key_bytes,
    "curves": curves,
}


def run(parts: Sequence[str], quick: bool, say: Say, *, with_peers: bool) -> tuple[list[Figure], dict[str, Any]]:
    """Runs the named parts, one after the other. Returns their figures and the conditions."""
    return run_parts(
        {**PARTS, "peers": peers},
        [*parts, *(["peers"] if with_peers else [])],
        quick,
        say,
        quick_start=True,
        jvm="as headrace run starts it; Spark's own operators in a JVM with Java's defaults",
        sink="noop for the Spark part; file-sink, every transaction forced to disk, end to end",
        processes="connector, gateway, Spark (local[*]) and sink share all cores",
        message_bytes="quotes 42, orders 53, words 8, stamped messages 61",
    )
