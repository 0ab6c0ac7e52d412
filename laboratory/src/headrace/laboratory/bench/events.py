"""How old the status is that pages of the console show: from the gateway's snapshot until the last of ten clients has it."""

import re
import statistics
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from headrace.laboratory.bench.figures import Figure
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.queries import headrace, noop
from headrace.laboratory.bench.rig import connector, gateway, wait_for
from headrace.processes import free_address

CLIENTS = 10
_TIMEOUT_S = 60.0
_CHANGES = re.compile(rb'data: \{"at_ms":(\d+),')


def console_update(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """The age of an update of 1,000 streams that all change every second, once the slowest of ten clients has all of it.

    The baseline is a gateway with ten streams.
    """
    count, events = (100, 3) if quick else (1_000, 20)
    few = _ages(spark, 10, events)
    many = _ages(spark, count, events)
    value, baseline = statistics.median(many), statistics.median(few)
    say(f"  {value:.0f} ms for {count:,} streams, at most {max(many):.0f} ms; {baseline:.0f} ms for ten")
    yield Figure(f"console_update_ms_{count}_streams", value, "ms", baseline, "< 250", value < 250)


def _ages(spark: SparkSession, streams: int, events: int) -> list[float]:
    """Returns how old each of so many events was at the client that had it last, in milliseconds."""
    address = free_address()
    with gateway("--http-listen", address) as running, noop(headrace(spark, running.address)):
        options = {"sessions": streams, "rate": 10, "seconds": events + 15, "skip": 5}
        with connector(running.address, "paced", **options) as source:
            wait_for("all streams to be live", lambda: len(running.status().streams) == streams, 60)
            with _listening(address) as arrived:
                wait_for("the events", lambda: _complete(arrived) > events, _TIMEOUT_S)
            source.result(timeout_s=180)
    return [max(ages) for ages in list(arrived.values()) if len(ages) == CLIENTS][1 : events + 1]


def _complete(arrived: dict[int, list[float]]) -> int:
    return sum(len(ages) == CLIENTS for ages in list(arrived.values()))


@contextmanager
def _listening(address: str) -> Iterator[dict[int, list[float]]]:
    """Has clients listen; yields the ages of each event at those that have it, in milliseconds, by the time of its snapshot."""
    arrived: dict[int, list[float]] = defaultdict(list)
    stop = threading.Event()

    def listen() -> None:
        with urllib.request.urlopen(f"http://{address}/api/v1/events", timeout=_TIMEOUT_S) as response:
            while not stop.is_set():
                found = _CHANGES.match(response.readline())
                if found:
                    taken_ms = int(found[1])
                    arrived[taken_ms].append(time.time() * 1000 - taken_ms)

    clients = [threading.Thread(target=listen) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        yield arrived
    finally:
        stop.set()
        for client in clients:
            client.join()
