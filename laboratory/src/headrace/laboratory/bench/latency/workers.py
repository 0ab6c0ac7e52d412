"""The rate of an application's steps in real-time mode, by the number of processes that share the buckets: without Spark."""

import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.engine.applications.real_time.bucket_process import BucketProcess
from headrace.engine.applications.real_time.processor import Processor
from headrace.engine.applications.stages.plan import Plan
from headrace.engine.applications.states.keys import bucket_ids
from headrace.engine.checkpoint.manifests import Manifest
from headrace.engine.checkpoint.state_files import LocalFiles
from headrace.engine.codec import Columns, cut
from headrace.laboratory.bench.figures import Figure, itself
from headrace.laboratory.bench.latency.measure import KEYS
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.pipelines.apps import Count
from headrace.laboratory.bench.pipelines.feed import Words
from headrace.pipelines import Pipeline

SLICE = 1_000
"""The messages of a slice, which take about as long as the worker wants."""
_WORK = 1_500


def work(payload: bytes, state: Count) -> bytes:
    """Counts a message, and takes some 20 us for it."""
    state.n += sum(range(_WORK)) > 0
    return payload


def working() -> Pipeline:
    """Builds an application whose function takes most of the time."""
    app = Pipeline("bench-working")
    app.source("words/*", decode=bytes).key_by().stateful(work, Count, name="work").sink("bench")
    return app


def real_time_workers(_: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """One process and as many as there are cores, in turns."""
    cores = max(2, os.cpu_count() or 1)
    slices = list(_slices(10 if quick else 200))
    rates: dict[int, list[float]] = {1: [], cores: []}
    for _round in range(1 if quick else 4):
        for workers, found in rates.items():
            found.append(_rate(slices, workers, cores))
            say(f"  {workers} processes: {found[-1]:,.0f} messages/s")
    alone, shared = (statistics.median(found) for found in rates.values())
    yield Figure("real_time_workers", shared, "messages/s", alone)
    yield from itself("real_time_workers_1", rates[1], "messages/s")


def _slices(number: int) -> Iterator[Columns]:
    for frame in Words(KEYS).frames(0, number * SLICE):
        for first in range(frame.first, frame.last + 1, SLICE):
            part = cut(frame, first - 1, first + SLICE - 1)
            assert part is not None, "it has messages"
            yield part


def _rate(slices: Sequence[Columns], workers: int, buckets: int) -> float:
    """Returns the messages per second, after a tenth of the slices."""
    graph = working().graph
    plan = Plan(graph, bucket_ids(buckets), graph.name, uuid.uuid4().hex, 2**30)
    with tempfile.TemporaryDirectory() as name, _processes(plan, LocalFiles(Path(name)), workers - 1) as processes:
        processor = Processor(plan, LocalFiles(Path(name)), Manifest(), 0, 1, processes)
        warm = max(1, len(slices) // 10)
        for each in slices[:warm]:
            processor.process([each], None)
        begun = time.perf_counter()
        for each in slices[warm:]:
            processor.process([each], None)
        return sum(each.rows for each in slices[warm:]) / (time.perf_counter() - begun)


@contextmanager
def _processes(plan: Plan, files: LocalFiles, number: int) -> Iterator[Sequence[BucketProcess]]:
    started = [BucketProcess(plan, files) for _ in range(number)]
    try:
        yield started
    finally:
        for process in started:
            process.end()
        for process in started:
            process.await_end()
