"""The cost of large keyed state: small micro-batches, memory, and a restart."""

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import psutil
from pyspark.sql import SparkSession

from headrace.laboratory.bench.figures import Figure
from headrace.laboratory.bench.output import LINE_BYTES, Output
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.pipelines.child import in_child
from headrace.laboratory.bench.pipelines.sizes import Sizes
from headrace.laboratory.bench.rig import KEYED_SOURCES, Restartable, sink_command, source_command, wait_for
from headrace.machine.ports import free_address

_MAX_S = 1800.0
_SHARE = 0.8
"""The share of the available memory that all workers together may use."""
_RATE = 1_000


def small_batch_on_10m_keys(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """A micro-batch of 10,000 messages over 10 M keys of state, against the same over 10,000 keys."""
    del spark  # A separate session determines the number of workers.
    few, many = sizes.small_batch_keys
    target = "<= 1.5 x the baseline"
    for workers, name in ((None, "small_batch_on_10m_keys"), (8, "small_batch_on_10m_keys_8_workers")):
        took = {}
        for keys in (few, many):
            given = _small_batches(keys, workers, sizes)
            took[keys] = statistics.fmean(given)
            median, longest = statistics.median(given) * 1000, max(given) * 1000
            say(f"  {workers or 'all cores'}, {keys:,} keys: {took[keys] * 1000:.0f} ms, p50 {median:.0f}, longest {longest:.0f}")
        yield Figure(name, took[many] * 1000, "ms", took[few] * 1000, target, took[many] <= 1.5 * took[few])


def _small_batches(keys: int, workers: int | None, sizes: Sizes) -> list[float]:
    """Returns the seconds of each micro-batch, once each worker has cached nearly every bucket: Spark assigns them freely."""
    count = workers or os.cpu_count() or 1
    skip = sizes.small_batches_to_skip * count
    counted = {"messages": sizes.small_batch_messages, "batches": sizes.small_batches, "skip": skip}
    memory = int(_SHARE * psutil.virtual_memory().available / count)
    found: list[float] = in_child("small-batches", f"local[{workers or '*'}]", keys, f"{memory // 2**20}mb", **counted)["took_s"]
    return found


def memory_per_key_bytes(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """The memory of a key with a small state in a single worker, and the memory of a worker with a limit."""
    del spark  # A separate session has the single worker.
    keys = sizes.memory_keys
    free = in_child("memory", "local[1]", keys, "8gb", buckets=8)
    limit = 100 * keys
    limited = in_child("memory", "local[1]", keys, f"{limit}b", buckets=8)
    say(f"  {keys:,} keys: {free['grown_bytes'] / 1e6:.0f} MB; limited, {limited['grown_bytes'] / 1e6:.0f} MB")
    yield Figure("memory_per_key_bytes", free["grown_bytes"] / keys, "bytes")
    grown = limited["grown_bytes"] / 1e6
    yield Figure("memory_limited_mb", grown, "MB", limit / 1e6, "<= the limit, which is the baseline", grown <= limit / 1e6)


def restart_1m_keys_s(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """Time from a kill -9 of the driver, with an immediate restart, until a message that was due afterwards is visible."""
    del spark  # The driver is killed, so it is a separate process.
    keys = sizes.restart_keys
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder, address = Path(name), free_address()
        source = source_command("stamps", address, module=KEYED_SOURCES, keys=keys, rate=_RATE, seconds=7200)
        parts = {
            "gateway": ["-m", "headrace.cli", "gateway", "--listen", address, "--log-level", "error"],
            "sink": sink_command(address, folder / "out"),
            "source": source,
            "driver": ["-m", "headrace.laboratory.bench.pipelines.driver", address, str(folder)],
        }
        running = {part: stack.enter_context(Restartable(command)) for part, command in parts.items()}
        output = Output(folder / "out")
        wait_for("every key to have its state", lambda: output.size() > keys * LINE_BYTES, _MAX_S)
        restarts = [_restart(running["driver"], folder / "ready", output, say) for _ in range(sizes.restarts)]
    took = statistics.median(whole for whole, _ in restarts)
    yield Figure("restart_1m_keys_s", took, "s", None, "< 10", took < 10)
    yield Figure("restart_1m_keys_longest_s", max(whole for whole, _ in restarts), "s")
    yield Figure("restart_1m_keys_without_jvm_s", statistics.median(rest for _, rest in restarts), "s")


def _restart(driver: Restartable, ready: Path, output: Output, say: Say) -> tuple[float, float]:
    """Kills and restarts a driver that has caught up. Returns the seconds that it takes, in all and once its session is ready."""
    _wait_for_stamp_after(output, time.time())
    killed_at = time.time()
    driver.kill_and_restart()
    wait_for("the driver's session", lambda: ready.stat().st_mtime > killed_at, 120)
    _wait_for_stamp_after(output, killed_at)
    took, with_session = time.time() - killed_at, time.time() - ready.stat().st_mtime
    say(f"  {took:.2f} s, of which {took - with_session:.2f} s until the JVM and its session were there")
    return took, with_session


def _wait_for_stamp_after(output: Output, moment: float) -> None:
    wait_for("a message that was due later to be visible", lambda: bool(np.any(output.stamps() > moment)), 300)
