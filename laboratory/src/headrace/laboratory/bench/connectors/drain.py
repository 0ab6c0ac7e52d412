"""Messages per second from a broker to Spark's noop sink, against the same client library draining the same broker alone."""

import secrets
import statistics
from collections.abc import Callable, Iterator
from functools import partial

from pyspark.sql import SparkSession

from headrace.laboratory.bench.connectors import client
from headrace.laboratory.bench.connectors.chain import Chain
from headrace.laboratory.bench.connectors.system import System
from headrace.laboratory.bench.figures import Figure, itself
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.queries import headrace, noop
from headrace.laboratory.bench.rig import connector, gateway

WARM_S = 20
Take = Callable[[str, int], client.Drained]


def drain(broker: System, spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """The rate and the connector's memory, each the median of several rounds in which both take turns.

    Spark is warm: the query has run until the JVM has compiled the code of a micro-batch.
    """
    messages = 2_000 if quick else 200_000
    chained: list[client.Drained] = []
    alone: list[client.Drained] = []
    with (
        client.place_of(broker, f"headrace-bench-{secrets.token_hex(4)}") as place,
        gateway() as running,
        noop(headrace(spark, running.address)) as query,
    ):
        chain = Chain(broker, running, query)
        if broker.keeps:
            client.fill(broker, place, messages)

        def measured(take: Take) -> client.Drained:
            if not broker.keeps:
                client.fill(broker, place, messages)
            return take(place, messages)

        if not quick:
            with connector(running.address, "paced", rate=10_000, seconds=WARM_S, skip=0) as warming:
                warming.result(timeout_s=WARM_S + 60)
            measured(chain.drain)
        for _ in range(1 if quick else 3):
            chained.append(measured(chain.drain))
            alone.append(measured(partial(client.drain, broker)))
            say(f"  {chained[-1].rate:,.0f} messages/s, the client alone {alone[-1].rate:,.0f}")
    rate, baseline = (statistics.median(one.rate for one in several) for several in (chained, alone))
    yield Figure(f"{broker.name}_drain", rate, "messages/s", baseline, ">= 0.8 of the baseline", rate >= 0.8 * baseline)
    yield from itself(f"{broker.name}_drain", [one.rate for one in chained], "messages/s")
    rss, own_rss = (statistics.median(one.rss_mb for one in several) for several in (chained, alone))
    yield Figure(f"{broker.name}_memory", rss, "MB", own_rss)
