"""Time from publishing a message to its result, at a steady rate."""

import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.bench._figures import Figure
from headrace.bench._output import Output
from headrace.bench._parts import Say
from headrace.bench._queries import headrace
from headrace.bench._rig import gateway
from headrace.bench._sink import to_headrace
from headrace.bench._sources import quantile_ms
from headrace.bench.connectors import _client as client
from headrace.bench.connectors._chain import connector
from headrace.bench.connectors._system import System

RATE = 1_000
_LONGEST_S = 90.0


def latency(broker: System, spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """From when a message is due to be published until it can be read in the file of a two-phase sink.

    As many before these do not count: processes start, and the JVM compiles what a micro-batch runs.
    """
    warm, seconds = (1, 2) if quick else (12, 12)
    with (
        tempfile.TemporaryDirectory() as name,
        client.place_of(broker, f"headrace-bench-{secrets.token_hex(4)}") as place,
        gateway() as running,
        to_headrace(headrace(spark, running.address), running.address, Path(name)),
    ):
        client.fill(broker, place, 0)
        output = Output(Path(name) / "out")
        with connector(broker, place, "bench", running.address):
            with client.publishing(broker, place, RATE, warm):
                output.delays(RATE * warm, timeout_s=warm + _LONGEST_S)
            with client.publishing(broker, place, RATE, seconds):
                seen = output.delays(RATE * seconds, timeout_s=seconds + _LONGEST_S)
    ordered = sorted(seen)
    p50, p99 = quantile_ms(ordered, 0.50), quantile_ms(ordered, 0.99)
    say(f"  p50 {p50:.0f} ms, p99 {p99:.0f} ms over {len(ordered):,} messages")
    yield Figure(f"{broker.name}_latency_p50", p50, "ms")
    yield Figure(f"{broker.name}_latency_p99", p99, "ms")
