"""`headrace bench cluster`: the same query on one JVM and on a cluster, the loss of a worker, and a submission."""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from headrace.laboratory.bench.cluster.drivers import LOCAL, driver, submitted
from headrace.laboratory.bench.figures import Figure, Progress, itself, machine, measured
from headrace.laboratory.bench.output import Output
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.pipelines.apps import RESULT_BYTES
from headrace.laboratory.bench.pipelines.end_to_end import LENGTH_BYTES, drained
from headrace.laboratory.bench.pipelines.feed import MarketFeed
from headrace.laboratory.bench.rig import KEYED_SOURCES, Restartable, gateway, owned, sink_command, source_command, wait_for
from headrace.laboratory.cluster import SparkCluster
from headrace.processes import OwnedProcess

WORKERS = 2
STANDALONE = "standalone"
_RATE = 1_000
_SETTLES_S = 10.0
_MAX_S = 600.0
_EVER = -1.0
"""A time before every stamp."""

Part = Callable[[Say, bool], Iterator[Figure]]


def run(parts: Sequence[str], quick: bool, say: Progress) -> tuple[list[Figure], dict[str, Any]]:
    """Runs the named parts, one after the other. Returns their figures and the conditions."""
    figures: list[Figure] = []
    for name in parts:
        if not say.begins(name):
            continue
        say(f"{name} ...")
        figures += measured(name, partial(PARTS[name], say, quick), say)
    conditions = {
        "quick": quick,
        "cluster": f"standalone: a master and {WORKERS} workers of one core each, JVMs of this machine",
        "query": "Market Spread; stamped messages for a lost worker and a submission",
        "sink": "file-sink, every transaction forced to disk",
        "processes": "connector, gateway, driver, master, workers, executors and sink share all cores",
    }
    return figures, machine() | conditions


def cluster_over_local(say: Say, quick: bool) -> Iterator[Figure]:
    """Messages per second of Market Spread on two workers with one core each, against the same on two cores of one JVM.

    The two take turns, so that other load on the machine affects both.
    """
    messages, rounds = (200_000, 1) if quick else (4_000_000, 3)
    rates: dict[str, list[float]] = {LOCAL: [], STANDALONE: []}
    with started() as cluster, driver(LOCAL, cluster.environ) as local, driver(cluster.master, cluster.environ) as standalone:
        turns = [(LOCAL, local), (STANDALONE, standalone)]
        for number in range(rounds + 1):
            for name, each in turns if number % 2 else reversed(turns):
                count = messages if number else messages // 4
                rate = drained(each.running, "market", MarketFeed(), LENGTH_BYTES + RESULT_BYTES, count)
                say(f"  {name}: {rate:,.0f} messages/s{'' if number else ' to warm up'}")
                if number:
                    rates[name].append(rate)
    found, baseline = (statistics.median(rates[name]) for name in (STANDALONE, LOCAL))
    yield Figure("cluster_over_local", found, "messages/s", baseline, ">= 0.8 of the baseline", found >= 0.8 * baseline)
    yield from itself("cluster_over_local", rates[LOCAL], "messages/s")


def worker_lost_pause_s(say: Say, quick: bool) -> Iterator[Figure]:
    """Time from the kill -9 of a worker, with its executor, until a message that was due afterwards is visible.

    The baseline is the same time without a kill.
    """
    rounds = 1 if quick else 3
    with started() as cluster, stamped() as (address, folder, output):
        query = submitted(cluster, address, folder)
        with owned(query):
            usual, longest = 0.0, 0.0
            for _ in range(rounds):
                wait_for("an executor on each worker", partial(is_everywhere, cluster, query), _MAX_S)
                _await_stamp_after(output, time.time() + _SETTLES_S, query)
                usual = max(usual, _until_next(output, query))
                lost = next(worker for worker in cluster.workers if worker.runs)
                lost.kill()
                pause = _until_next(output, query)
                say(f"  {pause:.2f} s, and {usual:.2f} s at most where nothing is killed")
                longest = max(longest, pause)
                cluster.add_worker()
    yield Figure("worker_lost_pause_s", longest, "s", usual)


def submit_to_first_result_s(say: Say, quick: bool) -> Iterator[Figure]:
    """Time from spark-submit until the first result is visible, against a submission to one JVM."""
    took: dict[str, list[float]] = {LOCAL: [], STANDALONE: []}
    with started() as cluster:
        for _ in range(1 if quick else 3):
            for name, master in ((LOCAL, LOCAL), (STANDALONE, None)):
                with stamped() as (address, folder, output):
                    query = submitted(cluster, address, folder, master)
                    begun = time.time()
                    with owned(query):
                        _await_stamp_after(output, _EVER, query)
                        took[name].append(time.time() - begun)
                say(f"  {name}: {took[name][-1]:.1f} s")
    yield Figure("submit_to_first_result_s", statistics.median(took[STANDALONE]), "s", statistics.median(took[LOCAL]))


@contextmanager
def started() -> Iterator[SparkCluster]:
    """Yields a running cluster."""
    with tempfile.TemporaryDirectory() as name, SparkCluster(Path(name), workers=WORKERS) as cluster:
        yield cluster


@contextmanager
def stamped(*gateway_options: str) -> Iterator[tuple[str, Path, Output]]:
    """Yields a gateway's address, the work folder, and the output of a sink, while a source sends stamped messages."""
    with tempfile.TemporaryDirectory() as name, gateway(*gateway_options) as running, ExitStack() as stack:
        folder = Path(name)
        stack.enter_context(Restartable(sink_command(running.address, folder / "out")))
        source = source_command("stamps", running.address, module=KEYED_SOURCES, keys=350, rate=_RATE, seconds=3600)
        stack.enter_context(Restartable(source))
        yield running.address, folder, Output(folder / "out")


def _until_next(output: Output, query: OwnedProcess) -> float:
    """Returns the seconds until a message that is due from now on is visible."""
    begun = time.time()
    _await_stamp_after(output, begun, query)
    return time.time() - begun


def _await_stamp_after(output: Output, moment: float, query: OwnedProcess) -> None:
    wait_for("a message that was due later to be visible", partial(_is_visible, output, moment, query), _MAX_S)


def _is_visible(output: Output, moment: float, query: OwnedProcess) -> bool:
    _check_alive(query)
    return bool(np.any(output.stamps() > moment))


def is_everywhere(cluster: SparkCluster, query: OwnedProcess) -> bool:
    """Whether each worker that runs has an executor.

    Raises:
        RuntimeError: The driver has ended.
    """
    _check_alive(query)
    return all(worker.executors() for worker in cluster.workers if worker.runs)


def _check_alive(query: OwnedProcess) -> None:
    if query.exit_code() is not None:
        raise RuntimeError("the driver has ended: " + "\n".join(query.tail()))


PARTS: dict[str, Part] = {
    "cluster_over_local": cluster_over_local,
    "worker_lost_pause_s": worker_lost_pause_s,
    "submit_to_first_result_s": submit_to_first_result_s,
}
