"""What pages of the console cost a gateway, and how old the status is that they have, as ten clients of the events see it."""

import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

from pyspark.sql import SparkSession

from headrace.laboratory.bench.figures import Figure
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.rig import wait_for
from headrace.laboratory.bench.site import CLIENTS, Site, listening, overhead, site

_TIMEOUT_S = 60.0
_BATCH = 1_000
"""With batches of this many messages, a site sends more than is acknowledged on two cores."""


def console_update(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """The age of an update of 1,000 streams in 200 sessions that all change, once the slowest of ten clients has all of it.

    The baseline is a gateway with ten streams.
    """
    count, events = (100, 3) if quick else (1_000, 20)
    few = _ages(spark, 10, events)
    many = _ages(spark, count, events)
    value, baseline = statistics.median(many), statistics.median(few)
    say(f"  {value:.0f} ms for {count:,} streams, at most {max(many):.0f} ms; {baseline:.0f} ms for ten")
    yield Figure(f"console_update_ms_{count}_streams", value, "ms", baseline, "< 250", value < 250)


def _ages(spark: SparkSession, streams: int, events: int) -> list[float]:
    """Returns how old each of this many events was at the client that received it last, in milliseconds."""
    with site(spark, streams) as running, listening(running.http) as arrived:
        wait_for("the events", lambda: _complete(arrived) > events, _TIMEOUT_S)
    return [max(ages) for ages in list(arrived.values()) if len(ages) == CLIENTS][1 : events + 1]


def _complete(arrived: dict[int, list[float]]) -> int:
    return sum(len(ages) == CLIENTS for ages in list(arrived.values()))


def console_overhead(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """Messages per second of a large site, while ten clients listen and while none does."""
    yield from site_overhead(spark, say, quick, "console_overhead", "ten clients", lambda running: listening(running.http))


def site_overhead(
    spark: SparkSession, say: Say, quick: bool, name: str, what: str, observe: Callable[[Site], AbstractContextManager[object]]
) -> Iterator[Figure]:
    """Compares windows of time of one large site, whose sources send as fast as they may, with and without observers."""
    with site(spark, 100 if quick else 1_000, _BATCH) as running:
        yield from overhead(
            name,
            what,
            lambda observed: running.window(observe(running) if observed else nullcontext(), 2 if quick else 8),
            say,
            quick,
        )
