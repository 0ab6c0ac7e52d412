"""`headrace bench core`: a stream from a connector through the gateway into Spark, acknowledged by the checkpoint."""

import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession

from headrace.laboratory.bench.figures import Figure, Progress, itself
from headrace.laboratory.bench.parts import Part, Say, run_parts
from headrace.laboratory.bench.queries import headrace, inprocess_rate, noop, rows, stallable
from headrace.laboratory.bench.rig import RunningGateway, acknowledged_rate, connector, gateway, wait_for
from headrace.laboratory.bench.sources import MESSAGE_BYTES

STALLED_OFFER_BYTES = 10_000_000_000


def run(parts: Sequence[str], quick: bool, say: Progress) -> tuple[list[Figure], dict[str, Any]]:
    """Runs the named parts in one session, one after the other. Returns their figures and the conditions."""
    return run_parts(
        PARTS,
        parts,
        quick,
        say,
        sink="noop",
        processes="connector, gateway and Spark (local[*]) share all cores",
    )


def throughput(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """Messages per second from a connector to the acknowledgement, against the same query without a connector and a gateway."""
    messages = 4_000_000 if quick else 16_000_000
    drain(spark, messages=2_000_000)
    rates, baselines = [], []
    for _ in range(1 if quick else 3):
        rate, batch = drain(spark, messages=messages)
        baseline = inprocess_rate(spark, batch, 3 if quick else 6)
        say(f"  {rate:,.0f} messages/s, in process {baseline:,.0f}, micro-batches of {batch:,} messages")
        rates.append(rate)
        baselines.append(baseline)
    rate, baseline = statistics.median(rates), statistics.median(baselines)
    met = rate >= 1e6 and rate >= 0.35 * baseline
    yield Figure("throughput", rate, "messages/s", baseline, ">= 1,000,000 and >= 0.35 of the baseline", met)
    yield from itself("throughput", rates, "messages/s")
    single, _ = drain(spark, messages=messages // 8, single=True)
    met = single >= 0.4 * baseline
    yield Figure("throughput_single_messages", single, "messages/s", baseline, ">= 0.4 of the baseline", met)


def drain(spark: SparkSession, of_gateway: Sequence[str] = (), **options: Any) -> tuple[float, int]:
    """Sends messages; returns how many per second were acknowledged after the first quarter, and the size of a micro-batch.

    `of_gateway` are options of the gateway, and `options` are options of the connector.

    Raises:
        RuntimeError: Fewer messages reached Spark than were acknowledged.
    """
    with (
        gateway(*of_gateway) as running,
        noop(headrace(spark, running.address)) as query,
        connector(running.address, "fast", **options) as source,
    ):
        moments = source.result(timeout_s=300)["acknowledged"]
        total = moments[-1][1]
        wait_for("Spark to report its last micro-batch", lambda: sum(rows(query)) >= total, 10)
        batches = rows(query)
    if sum(batches) != total:
        raise RuntimeError(f"{total} messages were acknowledged and {sum(batches)} reached Spark")
    return acknowledged_rate(moments), total // len(batches)


def latency(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """Time from sending a message to its acknowledgement, at 10,000 messages per second."""
    with gateway() as running, noop(headrace(spark, running.address)):
        options = {"rate": 10_000, "seconds": 10 if quick else 25, "skip": 4 if quick else 8}
        with connector(running.address, "paced", **options) as source:
            seen = source.result(timeout_s=120)
    say(f"  p50 {seen['p50_ms']:.0f} ms, p99 {seen['p99_ms']:.0f} ms, longest {seen['max_ms']:.0f} ms")
    yield Figure("ack_latency_p50", seen["p50_ms"], "ms", None, "<= 150, aim 60", seen["p50_ms"] <= 150)
    yield Figure("ack_latency_p99", seen["p99_ms"], "ms", None, "<= 300", seen["p99_ms"] <= 300)


def stalled(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """Memory of the gateway while Spark reads nothing and a source offers 10 GB, and the rate before and afterwards."""
    messages = STALLED_OFFER_BYTES // MESSAGE_BYTES
    seconds = 3 if quick else 8
    with gateway() as running, stallable(headrace(spark, running.address)) as sink:
        idle = running.rss_mb()
        with connector(running.address, "fast", messages=messages):
            wait_for("the first acknowledgement", lambda: _acknowledged(running) > 0, 60)
            before = _rate(running, seconds)
            sink.clear()
            wait_for("the gateway to fill up", lambda: is_full(running), 60)
            samples = [running.rss_mb() for _ in _ticks(seconds)]
            sink.set()
            after = _rate(running, seconds)
    growth = max(samples) - samples[0]
    say(f"  {max(samples):.0f} MB (idle {idle:.0f}, +{growth:.1f} while stalled)")
    say(f"  {before:,.0f} messages/s before, {after:,.0f} afterwards")
    yield Figure("gateway_rss_stalled", max(samples), "MB", idle, "<= 300, flat", max(samples) <= 300 and growth <= 10)
    yield Figure("throughput_after_stall", after, "messages/s", before)


def _rate(running: RunningGateway, seconds: float) -> float:
    """Messages acknowledged per second, over some seconds, after one second of warm-up."""
    time.sleep(1)
    begun, at = time.time(), _acknowledged(running)
    time.sleep(seconds)
    return (_acknowledged(running) - at) / (time.time() - begun)


def sessions(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """A thousand sessions at 10 messages per second each."""
    count = 100 if quick else 1000
    with gateway() as running, noop(headrace(spark, running.address)):
        options = {"sessions": count, "rate": 10, "seconds": 15 if quick else 40, "skip": 5 if quick else 20}
        with connector(running.address, "paced", **options) as source:
            wait_for("all sessions to be live", lambda: _live_streams(running) == count, 60)
            time.sleep(4 if quick else 10)
            begun, cpu = time.time(), running.cpu_s()
            time.sleep(3 if quick else 10)
            cores = (running.cpu_s() - cpu) / (time.time() - begun)
            seen = source.result(timeout_s=180)
    say(f"  {cores:.2f} cores, ack p50 {seen['p50_ms']:.0f} ms, p99 {seen['p99_ms']:.0f} ms over {seen['messages']:,} messages")
    name = f"sessions_{count}"
    yield Figure(f"{name}_gateway_cores", cores, "cores", None, "< 1", cores < 1)
    yield Figure(f"{name}_ack_p50", seen["p50_ms"], "ms")
    yield Figure(f"{name}_ack_p99", seen["p99_ms"], "ms", None, "<= 500", seen["p99_ms"] <= 500)


def curves(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """The rate as a function of the number of streams, and of the size of frames."""
    messages = 1_000_000 if quick else 4_000_000
    first = None
    for streams in (1, 10, 100, 1000):
        rate, _ = drain(spark, messages=messages, partitions=streams, batch=max(100, 10_000 // streams))
        first = first or rate
        say(f"  {streams} streams: {rate:,.0f} messages/s")
        yield Figure(f"throughput_streams_{streams}", rate, "messages/s", first)
    for frame in (10_000, 1000, 100, 10):
        rate, _ = drain(spark, messages=max(messages * frame // 10_000, messages // 20), frame=frame, batch=frame)
        first = rate if frame == 10_000 else first
        say(f"  frames of {frame} messages: {rate:,.0f} messages/s")
        yield Figure(f"throughput_frames_{frame}", rate, "messages/s", first)


def is_full(running: RunningGateway) -> bool:
    """Whether every session has used up nearly all of its credit."""
    found = running.status().sessions
    return bool(found) and all(s.outstanding_bytes > 0 and s.credit_bytes < 2**20 for s in found)


def _acknowledged(running: RunningGateway) -> int:
    return sum(stream.acknowledged_messages for stream in running.status().streams)


def _live_streams(running: RunningGateway) -> int:
    return len(running.status().streams)


def _ticks(seconds: float) -> Iterator[None]:
    for _ in range(int(seconds * 10)):
        time.sleep(0.1)
        yield


PARTS: dict[str, Part] = {
    "throughput": throughput,
    "latency": latency,
    "stalled": stalled,
    "sessions": sessions,
    "curves": curves,
}
