"""An application on executors of their own, many of whose tasks fail when all their work is done, and run again.

Such an attempt has left its files in the checkpoint, and its executor has its states: what Spark counts is the next attempt's.
The results of the application's function do not follow from its arguments, so the states of two attempts always differ.

Run by `test_lost_attempts.py` as a program, whose argument is a folder; imported by the workers, in which it makes tasks fail.
"""

import json
import random
import secrets
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from headrace.engine.applications.stages.keyed_task import KeyedTask
from headrace.pipelines import Pipeline

EXCLUSIONS = (
    "task.maxTaskAttemptsPerNode",
    "stage.maxFailedTasksPerExecutor",
    "stage.maxFailedExecutorsPerNode",
    "application.maxFailedTasksPerExecutor",
    "application.maxFailedExecutorsPerNode",
)
NUMBERS = 96
KEYS = 6

run = KeyedTask.__call__


def run_and_fail(self: KeyedTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    leaving = list(run(self, batches))
    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber() == 0 and random.random() < 0.7:
        raise RuntimeError("this attempt is lost, with all its work done")
    yield from leaving


KeyedTask.__call__ = run_and_fail  # type: ignore[method-assign]


@dataclass
class Chain:
    count: int = 0
    mark: str = ""


def follow(number: int, chain: Chain) -> str:
    before, chain.mark = chain.mark, secrets.token_hex(4)
    chain.count += 1
    return json.dumps([number % KEYS, chain.count, before, chain.mark])


def chains() -> Pipeline:
    app = Pipeline("chains")
    app.source("n/*", decode=int).key_by(lambda number: number % KEYS).stateful(follow, Chain, name="chains").sink("out")
    return app


def main(folder: Path) -> None:
    """Prints the results, and the states in the end, as JSON."""
    from tests.engine import lost_attempts
    from tests.examples.rig import rig

    from headrace.connectors import FileSource
    from headrace.engine import StoredStates, build_session

    app = lost_attempts.chains()
    spark = build_session(
        "lost attempts",
        "local-cluster[2,1,1024]",
        {
            "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2]),
            "spark.sql.shuffle.partitions": 2,
            "spark.speculation": True,
            "spark.locality.wait": "0s",
            "spark.task.maxFailures": 20,
            # The next attempt runs on the other executor, and the first one keeps what it has.
            "spark.excludeOnFailure.enabled": True,
            **{f"spark.excludeOnFailure.{limit}": 19 for limit in EXCLUSIONS},
            "spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor": 1,
        },
        quick_start=True,
    )
    spark.sparkContext.setLogLevel("OFF")
    file, results = folder / "n" / "0", list[bytes]()
    file.parent.mkdir()
    try:
        for part in range(2):
            numbers = range(part * NUMBERS // 2, (part + 1) * NUMBERS // 2)
            with file.open("a") as source:
                source.writelines(f"{number}\n" for number in numbers)
            with rig(spark, folder) as running:
                options = {"maxMessagesPerTrigger": "8"}
                results += running.run(app, FileSource("n", [file], follow=False), options=options)["out"]
        stored = dict(StoredStates(spark, str(folder / "checkpoint"), app.graph).all("chains"))
    finally:
        spark.stop()
    found = defaultdict(list)
    for result in results:
        key, *link = json.loads(result)
        found[key].append(link)
    print("RESULT", json.dumps([list(found.items()), [(key, [chain.count, chain.mark]) for key, chain in stored.items()]]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
