"""A large site: 1,000 streams that change every second, ten clients that follow its status, and what observers cost it."""

import re
import statistics
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from headrace.laboratory.bench.figures import Figure, itself
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.queries import headrace, noop
from headrace.laboratory.bench.rig import GATEWAY, RunningGateway, connector, gateway, wait_for
from headrace.machine.ports import free_address

PAIRS = 6
CLIENTS = 10
STREAMS_OF_A_SESSION = 5
_START_S = 120.0
_TIMEOUT_S = 60.0
_SETTLE_S = 2.0
_CHANGES = re.compile(rb'data: \{"at_ms":(\d+),')


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a gateway."""

    rate: float
    """Messages acknowledged per second."""
    cpu_us: float
    """The gateway's processor time for each message, in microseconds."""


@dataclass(frozen=True, slots=True)
class Site:
    """A gateway with many streams, which a query reads, and its HTTP address."""

    gateway: RunningGateway
    http: str

    def window(self, observed: AbstractContextManager[object], seconds: float) -> Run:
        """Measures how fast messages are acknowledged while something observes the site: for some seconds, or until one is.

        Raises:
            TimeoutError: None was acknowledged in a minute.
        """
        with observed:
            time.sleep(_SETTLE_S)
            before, cpu, begun = self.acknowledged(), self.gateway.cpu_s(), time.monotonic()
            time.sleep(seconds)
            # On a machine that is busy, a short window may be between two micro-batches.
            wait_for("an acknowledgement", lambda: self.acknowledged() > before, _TIMEOUT_S)
            messages, cpu = self.acknowledged() - before, self.gateway.cpu_s() - cpu
            return Run(messages / (time.monotonic() - begun), cpu * 1e6 / messages)

    def acknowledged(self) -> int:
        """Returns how many messages are acknowledged."""
        return self.gateway.status().gateway.acknowledged_messages


@contextmanager
def site(spark: SparkSession, streams: int, batch: int = 1, module: Sequence[str] = GATEWAY) -> Iterator[Site]:
    """Runs a site; yields it once something of each stream is acknowledged.

    Args:
        spark: The session of the query that reads it.
        streams: How many streams it has, of which each sends twice a second.
        batch: How many messages a stream sends each time.
        module: The module of its gateway, with its arguments.
    """
    http = free_address()
    sessions = max(1, streams // STREAMS_OF_A_SESSION)
    options = {"sessions": sessions, "partitions": streams // sessions, "batch": batch}
    with (
        gateway("--http-listen", http, module=module) as running,
        noop(headrace(spark, running.address)),
        connector(running.address, "steady", **options),
    ):
        wait_for("all streams to be acknowledged", lambda: flowing(running) == streams, _START_S)
        yield Site(running, http)


def flowing(running: RunningGateway) -> int:
    """Returns of how many streams something is acknowledged."""
    return sum(stream.acknowledged_messages > 0 for stream in running.status().streams)


@contextmanager
def listening(address: str, count: int = CLIENTS) -> Iterator[dict[int, list[float]]]:
    """Has clients listen; yields how old each event was when they received it, in milliseconds, by the time of its snapshot."""
    arrived: dict[int, list[float]] = defaultdict(list)
    stop = threading.Event()

    def listen() -> None:
        with urllib.request.urlopen(f"http://{address}/api/v1/events", timeout=_TIMEOUT_S) as response:
            while not stop.is_set():
                found = _CHANGES.match(response.readline())
                if found:
                    taken_ms = int(found[1])
                    arrived[taken_ms].append(time.time() * 1000 - taken_ms)

    clients = [threading.Thread(target=listen) for _ in range(count)]
    for client in clients:
        client.start()
    try:
        yield arrived
    finally:
        stop.set()
        for client in clients:
            client.join()


def overhead(name: str, what: str, run: Callable[[bool], Run], say: Say, quick: bool) -> Iterator[Figure]:
    """Compares messages per second with and without something that observes the gateway.

    Each comes first in as many pairs as the other, so that what the machine does meanwhile affects both alike. The gateway's
    processor time varies less from run to run.

    Args:
        name: The name of the figure.
        what: What observes the gateway, for the progress.
        run: Runs once, observed or not.
        say: Takes the progress.
        quick: Whether one pair is enough.
    """
    observed, plain = list[Run](), list[Run]()
    for pair in range(1 if quick else PAIRS):
        for is_observed in (False, True) if pair % 2 else (True, False):
            (observed if is_observed else plain).append(run(is_observed))
        say(f"  {observed[-1].rate:,.0f} messages/s with {what}, {plain[-1].rate:,.0f} without")
    rate, baseline = (statistics.geometric_mean(run.rate for run in runs) for runs in (observed, plain))
    yield Figure(name, rate, "messages/s", baseline, ">= 0.97 of the baseline", rate >= 0.97 * baseline)
    cpu, without = (statistics.geometric_mean(run.cpu_us for run in runs) for runs in (observed, plain))
    yield Figure(f"{name}_gateway_cpu", cpu, "us/message", without)
    yield from itself(name, [run.rate for run in plain], "messages/s")
    yield from itself(f"{name}_gateway_cpu", [run.cpu_us for run in plain], "us/message")
