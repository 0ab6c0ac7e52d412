"""`headrace bench operate`: the cost of observing a gateway, and how soon it names a fault."""

import statistics
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.laboratory.bench.alarms import false_alarms
from headrace.laboratory.bench.capacity import capacity
from headrace.laboratory.bench.core import drain
from headrace.laboratory.bench.events import console_overhead, console_update
from headrace.laboratory.bench.faults import readyz_names_cause
from headrace.laboratory.bench.figures import Figure, Progress
from headrace.laboratory.bench.operate_names import FAULTS_PART
from headrace.laboratory.bench.pages import console_history, console_page, console_pages
from headrace.laboratory.bench.parts import Part, Say, run_parts
from headrace.laboratory.bench.queries import headrace, noop
from headrace.laboratory.bench.rig import RunningGateway, acknowledged_rate, connector, gateway, wait_for
from headrace.laboratory.bench.site import Run, overhead
from headrace.laboratory.bench.traces import traces_overhead
from headrace.machine.ports import free_address

SCRAPE_INTERVAL_S = 1.0
"""How often the metrics are read, in seconds; Prometheus reads them every 15 or 60 s."""
_SCRAPES = 5
"""How often the metrics are read in a row while the processor time is measured."""
_TIMEOUT_S = 10.0


def run(parts: Sequence[str], quick: bool, say: Progress, faults: Sequence[str] = ()) -> tuple[list[Figure], dict[str, Any]]:
    """Runs the named parts in one session, one after the other. Returns their figures and the conditions.

    `left_out` is why a fault was left out, by its name.

    Args:
        parts: The names of the parts.
        quick: Whether short runs are enough.
        say: Takes the progress.
        faults: The names of the faults to inject; all if it is empty.
    """
    left_out: dict[str, str] = {}
    return run_parts(
        {**PARTS, FAULTS_PART: partial(readyz_names_cause, only=faults, left_out=left_out)},
        parts,
        quick,
        say,
        sink="noop",
        processes="connector, gateway, Spark (local[*]) and the reader of the metrics share all cores",
        scrape_interval_s=SCRAPE_INTERVAL_S,
        left_out=left_out,
    )


def metrics_overhead(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """Messages per second while the metrics are read every second, against a gateway without an HTTP server."""
    messages = 500_000 if quick else 8_000_000
    drain(spark, messages=200_000 if quick else 2_000_000)
    yield from overhead("metrics_overhead", "metrics", partial(_run, spark, messages), say, quick)


def _run(spark: SparkSession, messages: int, watched: bool) -> Run:
    address = free_address() if watched else "off"
    with gateway("--http-listen", address) as running, noop(headrace(spark, running.address)):
        begun = running.cpu_s()
        with _scraping(address) if watched else nullcontext(), connector(running.address, "fast", messages=messages) as source:
            moments = source.result(timeout_s=300)["acknowledged"]
        return Run(acknowledged_rate(moments), (running.cpu_s() - begun) * 1e6 / messages)


@contextmanager
def _scraping(address: str) -> Iterator[None]:
    """Reads the metrics regularly, as soon as the gateway serves them.

    Raises:
        RuntimeError: they were never read.
    """
    stop, times = threading.Event(), list[float]()

    def scrape() -> None:
        while not stop.is_set():
            with suppress(OSError):  # The gateway does not serve them yet, or no longer.
                times.append(_scrape(address)[0])
            stop.wait(SCRAPE_INTERVAL_S)

    reader = threading.Thread(target=scrape)
    reader.start()
    try:
        yield
    finally:
        stop.set()
        reader.join()
    if not times:
        raise RuntimeError(f"the metrics at {address} were never read: the run was too short, or the gateway does not serve them")


def _scrape(address: str) -> tuple[float, int]:
    """Reads the metrics once; returns how long that took, in seconds, and the number of series."""
    begun = time.monotonic()
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=_TIMEOUT_S) as response:
        lines = response.read().splitlines()
    return time.monotonic() - begun, sum(not line.startswith(b"#") for line in lines)


def _used_s(running: RunningGateway, address: str | None) -> float:
    """Returns the processor time, in seconds, that a gateway uses while its metrics are read some times, or not."""
    begun = running.cpu_s()
    for _ in range(_SCRAPES):
        time.sleep(SCRAPE_INTERVAL_S)
        if address is not None:
            _scrape(address)
    return running.cpu_s() - begun


def scrape(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """How long it takes to read the metrics of 1,000 sessions with a stream each, and how many series these are.

    The processor time is measured when the sessions have ended; their streams are still known. It has the snapshot in it, and
    what the gateway does meanwhile anyway is left out.
    """
    count, address = 100 if quick else 1_000, free_address()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "gateway.toml"
        config.write_text("[http]\nstream_metrics = true\n")
        with gateway("--config", str(config), "--http-listen", address) as running, noop(headrace(spark, running.address)):
            options = {"sessions": count, "rate": 10, "seconds": 10 if quick else 40, "skip": 3 if quick else 5}
            with connector(running.address, "paced", **options) as source:
                wait_for("all sessions to be live", lambda: len(running.status().streams) == count, 60)
                scrapes = []
                for _ in range(5 if quick else 20):
                    # A snapshot is kept for a second, and is to be made anew for each of these.
                    time.sleep(SCRAPE_INTERVAL_S)
                    scrapes.append(_scrape(address))
                source.result(timeout_s=180)
            used, idle = list[float](), list[float]()
            for _ in range(1 if quick else 4):
                idle.append(_used_s(running, None))
                used.append(_used_s(running, address))
    took_ms, series = statistics.median(took for took, _ in scrapes) * 1000, max(series for _, series in scrapes)
    say(f"  {took_ms:.0f} ms for {series:,} series")
    yield Figure(f"scrape_{count}_streams", took_ms, "ms", None, "<= 100", took_ms <= 100)
    cpu_ms, idle_ms = (statistics.fmean(times) * 1000 / _SCRAPES for times in (used, idle))
    yield Figure(f"scrape_{count}_streams_cpu", cpu_ms - idle_ms, "ms", None, "<= 50", cpu_ms - idle_ms <= 50)
    yield Figure(f"series_{count}_streams", series, "series", None, "< 5,000", series < 5_000)


PARTS: Mapping[str, Part] = {
    "metrics_overhead": metrics_overhead,
    "scrape": scrape,
    "traces_overhead": traces_overhead,
    "console_update": console_update,
    "false_alarms": false_alarms,
    "console_overhead": console_overhead,
    "capacity": capacity,
    "console_page": console_page,
    "console_pages": console_pages,
    "console_history": console_history,
}
"""All parts but the one of the faults."""
