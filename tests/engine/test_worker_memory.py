"""A Python worker frees after each task what that has left, so that no worker grows from micro-batch to micro-batch."""

import gc
import os
import subprocess
import sys
import weakref
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession
from tests.examples.rig import rig

from headrace.engine.collector import FULL_EVERY_S, FULL_SHARE, TaskGarbage
from headrace.pipelines import Pipeline
from headrace.sdk import Message, Position, Source

BATCHES = 24
PER_BATCH = 20


class Ring:
    """Garbage of the kind that only the collector frees."""

    def __init__(self, number: int = 0) -> None:
        self.itself = self


class Numbers(Source):
    name = "numbers"

    def read(self, partition: str, position: Position | None) -> Iterator[Message]:
        for number in range(position.sequence + 1 if position else 0, BATCHES * PER_BATCH):
            yield Message(b"%d" % number, key=b"%d" % (number % 4), sequence=number)


def exempt(_: bytes, state: dict[str, int]) -> str:
    """How many objects of this worker the collector no longer looks at."""
    state["n"] = 1
    return f"{os.getpid()} {gc.get_freeze_count()}"


def test_what_a_worker_keeps_does_not_grow_from_micro_batch_to_micro_batch(spark: SparkSession, tmp_path: Path) -> None:
    app = Pipeline("frozen")
    app.source("numbers/*", decode=bytes).key_by().stateful(exempt, dict).sink("out")
    with rig(spark, tmp_path) as running:
        lines = running.run(app, Numbers(), options={"maxMessagesPerTrigger": str(PER_BATCH)})["out"]
    by_worker = defaultdict(list)
    for line in lines:
        pid, objects = map(int, line.split())
        by_worker[pid].append(objects)
    assert len(lines) == BATCHES * PER_BATCH
    busiest = max(by_worker.values(), key=len)
    # A worker has frozen the imports of its first tasks by then.
    settled = busiest[len(busiest) // 4]
    assert settled > 0, "modules are frozen"
    assert busiest[-1] - settled < 200, f"frozen from task to task: {busiest[:: len(busiest) // 20]}"


def test_garbage_of_a_task_is_freed_after_it() -> None:
    assert (
        said_by(
            """
        import gc, weakref
        from headrace.engine.collector import TaskGarbage, freeze_modules
        from tests.engine.test_worker_memory import Ring

        garbage, alive = TaskGarbage(), []
        for task in range(5):
            ring = Ring()
            alive.append(weakref.ref(ring))
            freeze_modules()
            del ring
            garbage.collect()
            print(sum(one() is not None for one in alive), gc.get_freeze_count() > 0)
        """
        )
        == ["0 True"] * 5
    )


def test_without_the_daemon_no_more_than_one_task_is_frozen() -> None:
    assert (
        said_by(
            """
        import gc, weakref
        from headrace.engine.collector import freeze_modules
        from tests.engine.test_worker_memory import Ring

        alive = []
        for task in range(5):
            ring = Ring()
            alive.append(weakref.ref(ring))
            freeze_modules()
            del ring
            gc.collect()  # as Spark does after each task
            print(sum(one() is not None for one in alive))
        """
        )
        == ["1"] * 5
    )


def test_states_are_frozen_when_a_worker_reads_them_for_the_first_time() -> None:
    assert said_by(
        """
        import gc
        from headrace.engine.applications.states.durable import save
        from headrace.engine.applications.states.state_cache import StateCache
        from headrace.engine.applications.states.store import Head, read_head
        from headrace.pipelines.runtime import StateClass
        from tests.engine.stages import MemoryStore

        classes, store, cache = {"step": StateClass(list, "step")}, MemoryStore(), StateCache()

        def taken(run):
            bucket = cache.take(("query", run, 1, 0), store, read_head(store), classes, (), 10**9)
            return bucket, bucket.kept["step"]

        bucket, states = taken("first")
        states.update({b"%d" % n: [n] for n in range(5_000)})
        save(store, Head(), bucket.kept, bucket.dirty, {"step": list(states)}, classes, {})
        for run in ("second", "second", "third"):
            gc.unfreeze()
            read = taken(run)
            print(gc.get_freeze_count() >= 5_000)
        """
    ) == ["True", "False", "True"]


def test_a_cycle_that_outlived_its_task_is_freed_by_a_full_collection() -> None:
    now = 0.0
    garbage = TaskGarbage(lambda: now)
    try:
        garbage.collect()
        ring = Ring()
        garbage.collect()
        gone = weakref.ref(ring)
        del ring
        garbage.collect()
        assert gone() is not None, "what was kept is not looked at after every task"
        now += FULL_EVERY_S
        garbage.collect()
        assert gone() is None
    finally:
        gc.unfreeze()


def test_full_collections_take_a_hundredth_of_the_time_at_most() -> None:
    class Clock:
        now = 0.0

        def __call__(self) -> float:
            self.now += took
            return self.now

    took, clock, frozen = FULL_EVERY_S, Clock(), gc.get_freeze_count()
    garbage = TaskGarbage(clock)
    try:
        garbage.collect()
        ring = Ring()
        garbage.collect()
        gone = weakref.ref(ring)
        del ring
        took = 0.0
        clock.now += (FULL_SHARE - 2) * FULL_EVERY_S
        garbage.collect()
        assert gone() is not None
        clock.now += 2 * FULL_EVERY_S
        garbage.collect()
        assert gone() is None
    finally:
        gc.unfreeze()
    assert not frozen


def said_by(program: str) -> list[str]:
    """The lines that a process of its own prints, since what is frozen is frozen for all tests."""
    lines = [line.removeprefix("        ") for line in program.splitlines()]
    root = Path(__file__).parents[2]
    ran = subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=root, capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()
