"""A bundled connector between a broker and a gateway, and a Spark query that reads its messages."""

import itertools
import os
import secrets
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import psutil
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.laboratory.bench.connectors import client
from headrace.laboratory.bench.connectors.client import POLL_S, Drained
from headrace.laboratory.bench.connectors.system import System
from headrace.laboratory.bench.figures import Figure
from headrace.laboratory.bench.output import Output
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.queries import headrace, rows
from headrace.laboratory.bench.rig import RunningGateway, end, gateway, python, wait_for
from headrace.laboratory.bench.sink import to_headrace
from headrace.laboratory.bench.sources import quantile_ms

_START_S = 60.0
_DRAINED_S = 120.0
_numbers = itertools.count(1)


class Chain:
    """A gateway and a query that reads all streams of the sources `bench*`; connectors come and go."""

    def __init__(self, broker: System, gateway: RunningGateway, query: StreamingQuery) -> None:
        self._broker = broker
        self._gateway = gateway
        self._query = query

    def drain(self, place: str, messages: int) -> Drained:
        """Starts a connector, and measures the time from when the gateway knows it until the last micro-batch is committed.

        Raises:
            RuntimeError: A different number of messages reached Spark.
        """
        before = sum(rows(self._query))
        source = f"bench{next(_numbers)}"
        with connector(self._broker, place, source, self._gateway.address) as process:
            begun = self._known(source, process)
            used = 0.0
            while self._acknowledged(source) < messages:
                used = max(used, process.memory_info().rss / 1e6)
                if time.time() - begun > _DRAINED_S:
                    raise TimeoutError(f"{self._acknowledged(source)} of {messages} messages were drained in {_DRAINED_S:.0f} s")
                _check(self._query, process)
                time.sleep(POLL_S)
            wait_for("Spark to report its last micro-batch", lambda: sum(rows(self._query)) - before >= messages, 10)
        arrived = sum(rows(self._query)) - before
        if arrived != messages:
            raise RuntimeError(f"{messages} messages were at the broker, and {arrived} reached Spark")
        return Drained(messages, last_committed(self._query) - begun, used)

    def _known(self, source: str, process: psutil.Process) -> float:
        """Returns when the gateway first had a stream of a connector, to within some milliseconds."""
        deadline = time.monotonic() + _START_S
        while not any(stream.stream.startswith(f"{source}/") for stream in self._gateway.status().streams):
            _check(self._query, process)
            if time.monotonic() > deadline:
                raise TimeoutError(f"the connector {self._broker.name} did not reach the gateway in {_START_S:.0f} s")
            time.sleep(POLL_S / 4)
        return time.time()

    def _acknowledged(self, source: str) -> int:
        streams = self._gateway.status().streams
        return sum(stream.acknowledged_messages for stream in streams if stream.stream.startswith(f"{source}/"))


@contextmanager
def connector(broker: System, place: str, source: str, gateway: str) -> Iterator[psutil.Process]:
    """Runs a bundled connector that reads a place, with `headrace connector run`."""
    command = python("-m", "headrace.cli", "connector", "run", *broker.source(place, source), "--gateway", gateway)
    environment = {**os.environ, **broker.secrets()}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        yield psutil.Process(process.pid)
    finally:
        end(process)


def last_committed(query: StreamingQuery) -> float:
    """Returns when the last micro-batch with messages was in the commit log, in seconds since 1970."""
    last = next(progress for progress in reversed(query.recentProgress) if progress["numInputRows"])
    return datetime.fromisoformat(last["timestamp"]).timestamp() + float(last["durationMs"]["triggerExecution"]) / 1000


def _check(query: StreamingQuery, process: psutil.Process) -> None:
    """Checks that a query and a connector are running.

    Raises:
        RuntimeError: The connector has ended.
    """
    if failure := query.exception():
        raise failure
    if process.status() == psutil.STATUS_ZOMBIE:
        raise RuntimeError("the connector has ended; its errors are above")


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
