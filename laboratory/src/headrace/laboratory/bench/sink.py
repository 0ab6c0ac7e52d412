"""`headrace bench sink`: from a connector through Spark into a two-phase file sink."""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.laboratory.bench.figures import Figure, Progress, itself
from headrace.laboratory.bench.output import Output
from headrace.laboratory.bench.parts import Part, Say, run_parts
from headrace.laboratory.bench.queries import headrace, noop, sink_query
from headrace.laboratory.bench.restart import restart
from headrace.laboratory.bench.rig import (
    Restartable,
    acknowledged_rate,
    connector,
    gateway,
    sink_command,
    source_command,
    wait_for,
)
from headrace.laboratory.bench.sources import MESSAGE_BYTES, quantile_ms
from headrace.laboratory.bench.steps import DRIVER
from headrace.machine.ports import free_address

RECOVERY_RATE = 1_000


def run(parts: Sequence[str], quick: bool, say: Progress) -> tuple[list[Figure], dict[str, Any]]:
    """Runs the named parts in one session, one after the other. Returns their figures and the conditions."""
    return run_parts(
        PARTS,
        parts,
        quick,
        say,
        sink="file-sink, lines, every transaction forced to disk",
        processes="connector, gateway, Spark (local[*]) and sink share all cores",
        recovery="the driver's session has quick_start",
    )


def throughput(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """Messages per second into the file sink, acknowledged, against Spark's own file sink behind the same source."""
    messages = 2_000_000 if quick else 8_000_000
    drain(spark, to_headrace, messages // 4)
    drain(spark, to_spark_files, messages // 4)
    rates: list[float] = []
    baselines: list[float] = []
    for _ in range(1 if quick else 3):
        rates.append(drain(spark, to_headrace, messages))
        baselines.append(drain(spark, to_spark_files, messages))
        say(f"  {rates[-1]:,.0f} messages/s, Spark's file sink {baselines[-1]:,.0f}")
    rate, baseline = sorted(rates)[len(rates) // 2], sorted(baselines)[len(baselines) // 2]
    yield Figure("throughput", rate, "messages/s", baseline, ">= 0.9 of the baseline", rate >= 0.9 * baseline)
    yield from itself("throughput", rates, "messages/s")


Query = Callable[[DataFrame, str, Path], AbstractContextManager[StreamingQuery]]


def drain(spark: SparkSession, into: Query, messages: int) -> float:
    """Sends messages; returns how many per second were acknowledged after the first quarter.

    Raises:
        RuntimeError: The files contain a different number of messages.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        gateway() as running,
        into(headrace(spark, running.address), running.address, Path(folder)),
    ):
        with connector(running.address, "fast", messages=messages) as source:
            moments = source.result(timeout_s=300)["acknowledged"]
        output = Output(Path(folder) / "out")
        wait_for("all to be visible", lambda: output.size() >= messages * (MESSAGE_BYTES + 1), 30)
        if output.size() != messages * (MESSAGE_BYTES + 1):
            raise RuntimeError(f"{messages} messages were sent and the files hold {output.size()} bytes")
    return acknowledged_rate(moments)


@contextmanager
def to_headrace(frame: DataFrame, address: str, folder: Path) -> Iterator[StreamingQuery]:
    """Writes the values of a frame to the file sink."""
    with Restartable(sink_command(address, folder / "out")):
        query = sink_query(frame, address, folder)
        try:
            yield query
        finally:
            query.stop()


@contextmanager
def to_spark_files(frame: DataFrame, address: str, folder: Path) -> Iterator[StreamingQuery]:
    """Writes the values of a frame to text files, with Spark's own sink."""
    lines = frame.selectExpr("CAST(value AS STRING) AS value")
    query = lines.writeStream.format("text").option("checkpointLocation", str(folder / "checkpoint")).start(str(folder / "out"))
    try:
        yield query
    finally:
        query.stop()


def nowhere(frame: DataFrame, address: str, folder: Path) -> AbstractContextManager[StreamingQuery]:
    """Discards a frame."""
    return noop(frame)


def latency(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """Time from when a message is due until it can be read in the sink's file, at 10,000 messages per second.

    The first half minute does not count, since the JVM is still compiling.
    """
    rate, seconds, skip = 10_000, 20 if quick else 60, 10 if quick else 35
    with tempfile.TemporaryDirectory() as name, gateway() as running:
        folder = Path(name)
        with to_headrace(headrace(spark, running.address), running.address, folder):
            output = Output(folder / "out")
            with connector(running.address, "stamped", rate=rate, seconds=seconds) as source:
                seen = output.delays(rate * seconds, timeout_s=seconds + 60)
                source.result(timeout_s=60)
    ordered = sorted(seen[rate * skip :])
    p50, p99 = quantile_ms(ordered, 0.50), quantile_ms(ordered, 0.99)
    say(f"  p50 {p50:.0f} ms, p99 {p99:.0f} ms over {len(ordered):,} messages")
    yield Figure("visible_latency_p50", p50, "ms", None, "<= 200", p50 <= 200)
    yield Figure("visible_latency_p99", p99, "ms")


def recovery(spark: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """Time from a kill -9, with an immediate restart, until a message that was due afterwards is visible.

    For the driver, it counts from when its session is ready, without the JVM's startup.
    """
    del spark  # The driver is killed too, so it is a separate process.
    rounds = 1 if quick else 2
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder, address = Path(name), free_address()
        parts = {
            "gateway": Restartable(["-m", "headrace.cli", "gateway", "--listen", address, "--log-level", "error"]),
            "source": Restartable(source_command("stamped", address, rate=RECOVERY_RATE, seconds=3600)),
            "sink": Restartable(sink_command(address, folder / "out")),
            "driver": Restartable(["-m", DRIVER, str(folder), address]),
        }
        for part in parts.values():
            stack.enter_context(part)
        output = Output(folder / "out")
        _wait_for_stamp_after(output, time.time())
        longest = dict.fromkeys(parts, 0.0)
        for killed in tuple(parts) * rounds:
            begun = time.time()
            parts[killed].kill_and_restart()
            if killed == "driver":
                begun = _session_ready(folder, begun)
            _wait_for_stamp_after(output, begun)
            took = time.time() - begun
            say(f"  {killed}: {took:.2f} s")
            longest[killed] = max(longest[killed], took)
    spark_alone = max(_empty_query_recovery() for _ in range(rounds))
    say(f"  driver of an empty query, without Headrace: {spark_alone:.2f} s")
    for killed, took in longest.items():
        yield Figure(f"recovery_{killed}_s", took, "s", spark_alone if killed == "driver" else None)
    yield Figure("recovery_max_s", max(longest.values()), "s", None, "<= 5, without the JVM's start", max(longest.values()) <= 5)


def _empty_query_recovery() -> float:
    """Returns the seconds from when a restarted driver's session is ready until Spark commits a micro-batch of an empty query."""
    with tempfile.TemporaryDirectory() as name, Restartable(["-m", DRIVER, name]) as driver:
        commits = Path(name) / "checkpoint" / "commits"
        wait_for("a first commit", lambda: bool(_committed(commits)), 90)
        killed_at = time.time()
        driver.kill_and_restart()
        begun = _session_ready(Path(name), killed_at)
        before = _committed(commits)
        wait_for("a commit after the restart", lambda: _committed(commits) > before, 90)
        return time.time() - begun


def _committed(commits: Path) -> set[str]:
    return {path.name for path in commits.iterdir() if path.name.isdecimal()} if commits.exists() else set()


def _session_ready(folder: Path, killed_at: float) -> float:
    """Returns when the driver that was restarted after a kill had its Spark session."""
    ready = folder / "ready"
    wait_for("the driver's session", lambda: ready.exists() and ready.stat().st_mtime > killed_at, 60)
    return ready.stat().st_mtime


def _wait_for_stamp_after(output: Output, moment: float) -> None:
    wait_for("a message that was due later to be visible", lambda: bool(np.any(output.stamps() > moment)), 90)


PARTS: dict[str, Part] = {"throughput": throughput, "latency": latency, "recovery": recovery, "restart": restart}
