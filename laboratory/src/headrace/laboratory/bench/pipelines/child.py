"""Measurements that need a separate Spark session.

`python -m headrace.laboratory.bench.pipelines.child WHAT ...` prints one JSON object.
"""

import argparse
import json
import os
import subprocess
import sys
from typing import Any

import psutil
from pyspark.sql import SparkSession

from headrace.laboratory.bench.pipelines.apps import MARKET_SPREAD, WORD_COUNT
from headrace.laboratory.bench.pipelines.feed import MarketFeed, Words
from headrace.laboratory.bench.pipelines.queries import rate, spark_part
from headrace.laboratory.bench.queries import session

_LOADED_AT_ONCE = 500_000
_MAX_S = 3600.0


def in_child(what: str, master: str, keys: int, worker_memory: str, **options: int) -> dict[str, Any]:
    """Runs a measurement in a process of its own, and returns its result.

    Args:
        what: `small-batches`, `memory` or `shuffle`.
        master: The master of its session.
        keys: The number of keys with state.
        worker_memory: The memory for states in each Python worker.
        options: Further options of this module, by name.
    """
    given = {"master": master, "keys": keys, "worker-memory": worker_memory, **options}
    arguments = [part for name, value in given.items() for part in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "headrace.laboratory.bench.pipelines.child", what, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=_MAX_S, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def small_batches(spark: SparkSession, given: argparse.Namespace) -> dict[str, object]:
    """Measures the seconds of micro-batches with few messages, over the states of many keys."""
    loading = _pieces(given.keys)
    small = spark_part(
        spark,
        WORD_COUNT,
        Words(given.keys, given.keys),
        [*loading, *[given.messages] * (given.skip + given.batches)],
        worker_memory=given.worker_memory,
    )[len(loading) + given.skip :]
    return {"took_s": [batch.took_s for batch in small]}


def memory(spark: SparkSession, given: argparse.Namespace) -> dict[str, object]:
    """Measures the growth of a Python worker's memory, in bytes, while the states of many keys are created and used."""
    seen: list[int] = []
    spark_part(
        spark,
        WORD_COUNT,
        Words(given.keys, given.keys),
        [1_000, *_pieces(given.keys - 1_000), given.messages],
        worker_memory=given.worker_memory,
        after=lambda _: seen.append(_largest_bytes()),
    )
    return {"grown_bytes": seen[-1] - seen[0]}


def shuffle(spark: SparkSession, given: argparse.Namespace) -> dict[str, object]:
    """Measures the messages per second of applications whose micro-batches one task reads, without and with the shuffle.

    In turns, on a single core: the rates then differ as the processor time does.
    """
    streams: Any = spark._jsparkSession.streams()
    for listener in streams.listListeners():
        # It would look for the gateway of a source with Headrace's name.
        streams.removeListener(listener)
    sizes = [given.messages] * (given.batches + 1)
    found: dict[str, dict[str, list[float]]] = {}
    for name, app, feed in (("market_spread", MARKET_SPREAD, MarketFeed()), ("word_count", WORD_COUNT, Words(given.keys))):
        rates = found[name] = {"without": [], "shuffled": []}
        for number in range(given.rounds + 1):
            for way in rates:
                without = way == "without"
                batches = spark_part(spark, app, feed, sizes, worker_memory=given.worker_memory, named_headrace=without)
                if number:
                    # In the first round, Java compiles what it runs.
                    rates[way].append(rate(batches[1:]))
    return dict(found)


def _largest_bytes() -> int:
    """Returns the private memory of the largest of Spark's Python processes, in bytes: it is the worker with the states."""
    return max(_own_bytes(process) for process in psutil.Process().children(recursive=True) if "python" in process.name())


def _own_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().uss)
    except psutil.NoSuchProcess:
        return 0


def _pieces(keys: int) -> list[int]:
    whole, rest = divmod(keys, _LOADED_AT_ONCE)
    return [*[_LOADED_AT_ONCE] * whole, *([rest] if rest else [])]


_MEASUREMENTS = {"small-batches": small_batches, "memory": memory, "shuffle": shuffle}


def main() -> None:
    """Runs one measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=list(_MEASUREMENTS))
    parser.add_argument("--master", required=True)
    parser.add_argument("--buckets", type=int, default=0, help="default: as many as tasks")
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--skip", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker-memory", required=True)
    given = parser.parse_args()
    if given.what == "shuffle":
        # Everything shares a single core, with the JVM that this process starts.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    spark = session(given.master, quick_start=True)
    if given.buckets:
        spark.conf.set("spark.sql.shuffle.partitions", given.buckets)
    json.dump(_MEASUREMENTS[given.what](spark, given), sys.stdout)


if __name__ == "__main__":
    main()
