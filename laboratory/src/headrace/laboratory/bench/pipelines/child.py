"""Measurements that need a separate Spark session.

`python -m headrace.laboratory.bench.pipelines.child WHAT ...` prints one JSON object.
"""

import argparse
import json
import sys

import psutil
from pyspark.sql import SparkSession

from headrace.laboratory.bench.pipelines.apps import WORD_COUNT
from headrace.laboratory.bench.pipelines.feed import Words
from headrace.laboratory.bench.pipelines.queries import spark_part
from headrace.laboratory.bench.queries import session

_LOADED_AT_ONCE = 500_000


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


def _largest_bytes() -> int:
    """Returns the private memory of the largest of Spark's Python processes, in bytes: that of the worker with the states."""
    return max(_own_bytes(process) for process in psutil.Process().children(recursive=True) if "python" in process.name())


def _own_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().uss)
    except psutil.NoSuchProcess:
        return 0


def _pieces(keys: int) -> list[int]:
    whole, rest = divmod(keys, _LOADED_AT_ONCE)
    return [*[_LOADED_AT_ONCE] * whole, *([rest] if rest else [])]


def main() -> None:
    """Runs one measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["small-batches", "memory"])
    parser.add_argument("--master", required=True)
    parser.add_argument("--buckets", type=int, default=0, help="default: as many as tasks")
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--skip", type=int, default=10)
    parser.add_argument("--worker-memory", required=True)
    given = parser.parse_args()
    spark = session(given.master, quick_start=True)
    if given.buckets:
        spark.conf.set("spark.sql.shuffle.partitions", given.buckets)
    json.dump(small_batches(spark, given) if given.what == "small-batches" else memory(spark, given), sys.stdout)


if __name__ == "__main__":
    main()
