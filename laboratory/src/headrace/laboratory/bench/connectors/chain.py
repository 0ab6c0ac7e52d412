"""A bundled connector between a broker and a gateway, and a Spark query that reads its messages."""

import itertools
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime

import psutil
from pyspark.sql.streaming.query import StreamingQuery

from headrace.laboratory.bench.connectors.client import POLL_S, Drained
from headrace.laboratory.bench.connectors.system import System
from headrace.laboratory.bench.queries import rows
from headrace.laboratory.bench.rig import STOP_S, RunningGateway, python, wait_for

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
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
        process.kill()
        process.wait()


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
