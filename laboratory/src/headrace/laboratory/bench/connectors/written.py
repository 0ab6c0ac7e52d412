"""Messages per second from Spark into a broker, against the same client library writing as many messages alone."""

import secrets
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.laboratory.bench.connectors import client
from headrace.laboratory.bench.connectors.system import System, WritableSystem
from headrace.laboratory.bench.figures import Figure
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.queries import headrace, sink_query
from headrace.laboratory.bench.rig import Restartable, acknowledged_rate, connector, gateway

_ACKNOWLEDGED_S = 300


def written(broker: System, spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """The rate of acknowledgements, each of which follows the commit of a transaction; the median of rounds in turns.

    Both write to a new place in each round, since one that has grown is slower.
    """
    assert isinstance(broker, WritableSystem)
    messages = 20_000 if quick else 400_000
    rates: list[float] = []
    alone: list[float] = []
    if not quick:
        _written(broker, spark, messages // 4)
    for _ in range(1 if quick else 3):
        rates.append(_written(broker, spark, messages))
        with client.place_of(broker, _place()) as place:
            alone.append(client.write(broker, place, messages))
        say(f"  {rates[-1]:,.0f} messages/s, the client alone {alone[-1]:,.0f}")
    rate, baseline = statistics.median(rates), statistics.median(alone)
    yield Figure(f"{broker.name}_sink", rate, "messages/s", baseline, ">= 0.8 of the baseline", rate >= 0.8 * baseline)


def _written(broker: WritableSystem, spark: SparkSession, messages: int) -> float:
    """Sends messages; returns how many per second were acknowledged after the first quarter.

    Raises:
        RuntimeError: The place has a different number of messages.
    """
    with tempfile.TemporaryDirectory() as folder, client.place_of(broker, _place()) as place, gateway() as running:
        client.fill(broker, place, 0)
        command = ["-m", "headrace.cli", "connector", "run", *broker.sink(place, "bench"), "--gateway", running.address]
        with Restartable(command):
            query = sink_query(headrace(spark, running.address), running.address, Path(folder))
            try:
                with connector(running.address, "fast", messages=messages) as source:
                    moments = source.result(timeout_s=_ACKNOWLEDGED_S)["acknowledged"]
            finally:
                query.stop()
        client.drain(broker, place, messages)
    return acknowledged_rate(moments)


def _place() -> str:
    return f"headrace-bench-{secrets.token_hex(4)}"
