"""An interval join against Spark's own stream-stream join, with the same Python function for each pair.

`python -m headrace.laboratory.bench.pipelines.intervals SIZE...` prints the micro-batches of Spark's join as JSON.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from headrace.contract.units import parse_size
from headrace.engine.applications.stages.plan import Plan
from headrace.engine.applications.states.keys import bucket_ids
from headrace.engine.codec import Columns
from headrace.laboratory.bench.figures import Figure, itself
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.pipelines.feed import Numbers, Stream, Words
from headrace.laboratory.bench.pipelines.inprocess import FeedSource, load
from headrace.laboratory.bench.pipelines.queries import WORKER_MEMORY, Batch, discarding, ran, rate, run_counted
from headrace.laboratory.bench.pipelines.sizes import Sizes
from headrace.laboratory.bench.queries import session
from headrace.pipelines import Pipeline

KEYS = 1_000
STEP_US = 1_000
"""The event time between two messages of a stream, in microseconds."""
SPAN_US = 500_000
"""How far apart the values of a pair may be, in microseconds: about one value of a key."""
SIDES = ("left/0", "right/0")
_MAX_S = 3_600.0
_FIRST, _LAST = 20_000, 2_000
"""The first micro-batch, in which everything starts; and the last one, an hour later, before which all pairs are due."""
_LATER_US = 3_600_000_000


@dataclass(frozen=True)
class Timed(Words):
    """Words with event times. Those from `jumps_at` on are an hour later."""

    jumps_at: int = 0
    seed: int = 0

    def numbers(self, begin: int, end: int) -> Numbers:
        """Other words in each stream; an hour later, one for which the function returns nothing."""
        words = super().numbers(begin + self.seed, end + self.seed)
        return np.where(np.arange(begin, end) < self.jumps_at, words, 1)

    def frames(self, begin: int, end: int) -> Iterator[Columns]:
        """Yields frames with event times."""
        for frame in super().frames(begin, end):
            yield frame._replace(event_times=self.times(frame.first, frame.last + 1).astype("<i8").tobytes())

    def times(self, begin: int, end: int) -> Numbers:
        """The event times of messages, in microseconds."""
        at = np.arange(begin, end, dtype=np.int64)
        return at * STEP_US + np.where(at >= self.jumps_at, _LATER_US, 0)


@dataclass(frozen=True)
class Sides:
    """Both streams, or one of them."""

    streams: Sequence[Stream]

    def results(self, end: int) -> int:
        """The number of pairs before the last micro-batch for which the function returns something.

        Args:
            end: The number of all messages.
        """
        left, right = (_by_key(stream, (end - _LAST) // 2) for stream in self.streams if isinstance(stream, Timed))
        pairs = 0
        for key in left.keys() & right.keys():
            if key % 10 == 0:
                at, times = right[key], left[key]
                pairs += int((np.searchsorted(at, times + SPAN_US, "right") - np.searchsorted(at, times - SPAN_US)).sum())
        return pairs


def _by_key(stream: Timed, count: int) -> dict[int, Numbers]:
    words, times = stream.numbers(0, count), stream.times(0, count)
    order = np.argsort(words, kind="stable")
    keys, starts = np.unique(words[order], return_index=True)
    return dict(zip(keys.tolist(), np.split(times[order], starts[1:]), strict=True))


def sides(messages: int) -> Sides:
    """Both streams of a run, whose last micro-batch is an hour later."""
    jumps_at = (messages - _LAST) // 2
    return Sides([Timed(KEYS, name=name, jumps_at=jumps_at, seed=10**6 * at) for at, name in enumerate(SIDES)])


def paired(pair: tuple[str, str]) -> str | None:
    """The Python function that both call for each pair."""
    left, right = pair
    return f"{left} {right}" if left[-1] == "0" else None


def joined_within() -> Pipeline:
    """The interval join."""
    app = Pipeline("bench-interval-join")
    left, right = (app.source(f"{name[:-2]}/*", decode=bytes.decode).key_by(name=f"by-{name[:-2]}") for name in SIDES)
    span = f"{SPAN_US}us"
    left.join_within(right, before=span, after=span, name="within").map(paired, name="paired").sink("bench", encode=str.encode)
    return app


def interval_join(spark: SparkSession, say: Say, sizes: Sizes) -> Iterator[Figure]:
    """The join of two streams within a span of event time, against Spark's own, which calls the same function."""
    batches = [_FIRST, *[sizes.interval_messages] * sizes.interval_batches, _LAST]
    own = [rate(_own(spark, batches)[1:-1]) for _ in range(2)]
    theirs = [rate(_spark_alone(batches)[1:-1]) for _ in range(sizes.interval_rounds)]
    found, baseline = statistics.median(own), statistics.median(theirs)
    say(f"  {found:,.0f} messages/s, Spark's stream-stream join {baseline:,.0f}: {found / baseline:.1f} times as many")
    yield Figure("interval_join", found, "messages/s", baseline, ">= 5 x the baseline", found >= 5 * baseline)
    yield from itself("interval_join", own, "messages/s")


def _own(spark: SparkSession, sizes: Sequence[int]) -> list[Batch]:
    graph = joined_within().graph
    buckets = bucket_ids(int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
    plan = Plan(graph, buckets, graph.name, uuid.uuid4().hex, parse_size(WORKER_MEMORY))
    arriving = load(spark, sides(sum(sizes)), sizes, plan).observe("arriving", sql.sum("messages").alias("messages"))
    with tempfile.TemporaryDirectory() as checkpoint, discarding(plan, arriving, checkpoint, "leaving") as query:
        return _checked([batch for batch, _ in ran(query, sizes)], sizes)


def _spark_alone(sizes: Sequence[int]) -> list[Batch]:
    command = [sys.executable, "-m", "headrace.laboratory.bench.pipelines.intervals", *map(str, sizes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=_MAX_S, check=True)
    return _checked([Batch(**batch) for batch in json.loads(done.stdout)], sizes)


def _checked(batches: list[Batch], sizes: Sequence[int]) -> list[Batch]:
    """Checks the number of results: one of ten pairs.

    Raises:
        RuntimeError: It is not the number of pairs for which the function returns something.
    """
    expected = sides(sum(sizes)).results(sum(sizes))
    found = sum(batch.results for batch in batches)
    if found != expected:
        raise RuntimeError(f"the join gives {found} results, not {expected}")
    return batches


def _theirs(spark: SparkSession, sizes: Sequence[int]) -> list[Batch]:
    """Spark's own join, and the function in `mapInArrow`."""
    both = sides(sum(sizes))
    left, right = (_rows(spark, stream, sizes) for stream in both.streams)
    span = f"INTERVAL {SPAN_US} MICROSECOND"
    within = sql.expr(f"l.key = r.key AND r.at BETWEEN l.at - {span} AND l.at + {span}")
    pairs = left.alias("l").join(right.alias("r"), within).selectExpr("l.value AS left", "r.value AS right")
    results = pairs.mapInArrow(_mapped, "value binary")
    return run_counted(results, sizes)


def _rows(spark: SparkSession, stream: Stream, sizes: Sequence[int]) -> DataFrame:
    name = f"headrace_bench_{stream.name.partition('/')[0]}"
    tasks = spark.sparkContext.defaultParallelism
    given = {"feed": Sides([stream]), "sizes": [size // 2 for size in sizes], "tasks": tasks, "format": name}
    spark.dataSource.register(type("GivenSide", (FeedSource,), given))
    rows = spark.readStream.format(name).load()
    return rows.selectExpr("key", "value", "event_time AS at").withWatermark("at", "0 seconds")


def _mapped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        pairs = zip(batch.column("left").to_pylist(), batch.column("right").to_pylist(), strict=True)
        results = [found for left, right in pairs if (found := paired((left.decode(), right.decode()))) is not None]
        yield pa.RecordBatch.from_pydict({"value": pa.array([text.encode() for text in results], pa.binary())})


if __name__ == "__main__":
    counts = [int(size) for size in sys.argv[1:]]
    json.dump([asdict(batch) for batch in _theirs(session(), counts)], sys.stdout)
