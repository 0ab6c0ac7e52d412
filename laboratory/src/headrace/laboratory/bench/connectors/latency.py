"""Time from publishing a message to its result, at a steady rate."""

import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.laboratory.bench.connectors import client
from headrace.laboratory.bench.connectors.chain import connector
from headrace.laboratory.bench.connectors.system import System
from headrace.laboratory.bench.figures import Figure
from headrace.laboratory.bench.output import Output
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.queries import headrace
from headrace.laboratory.bench.rig import gateway
from headrace.laboratory.bench.sink import to_headrace
from headrace.laboratory.bench.sources import quantile_ms

RATE = 1_000
_MAX_S = 90.0


def latency(broker: System, spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """Time from when a message is due to be published until it can be read in the file of a two-phase sink.

    The same number of messages before these do not count, while processes start and the JVM compiles.
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
                output.delays(RATE * warm, timeout_s=warm + _MAX_S)
            with client.publishing(broker, place, RATE, seconds):
                seen = output.delays(RATE * seconds, timeout_s=seconds + _MAX_S)
    ordered = sorted(seen)
    p50, p99 = quantile_ms(ordered, 0.50), quantile_ms(ordered, 0.99)
    say(f"  p50 {p50:.0f} ms, p99 {p99:.0f} ms over {len(ordered):,} messages")
    yield Figure(f"{broker.name}_latency_p50", p50, "ms")
    yield Figure(f"{broker.name}_latency_p99", p99, "ms")
