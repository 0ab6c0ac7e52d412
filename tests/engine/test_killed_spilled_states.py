"""States beyond a worker's memory, on its disk, when the worker is killed: the checkpoint has each of them once."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.examples.rig import rig

from headrace.engine import StoredStates
from headrace.pipelines import Pipeline
from headrace.sdk import Message, Position, Source

KEYS, ROUNDS = 3_000, 4
KILLED_AT = (KEYS + 700, 2 * KEYS + 1_500)
"""The messages at which the worker is killed that processes them, the first time: when all states are on its disk."""


class Numbers(Source):
    name = "numbers"

    def read(self, partition: str, position: Position | None) -> Iterator[Message]:
        for number in range(position.sequence + 1 if position else 0, KEYS * ROUNDS):
            yield Message(b"%d" % number, key=b"%d" % (number % KEYS), sequence=number)


def count(number: int, state: dict[str, Any], marks: str) -> str:
    if number in KILLED_AT:
        try:
            os.close(os.open(f"{marks}/{number}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    state["seen"] = state.get("seen", 0) + 1
    state["more"] = "x" * 1_000
    return f"{number % KEYS}:{state['seen']}"


def test_workers_killed_with_states_on_their_disks_lose_and_double_nothing(spark: SparkSession, tmp_path: Path) -> None:
    app, marks = Pipeline("killed"), str(tmp_path)
    keyed = app.source("numbers/*", decode=int).key_by(lambda number: number % KEYS)
    keyed.stateful(lambda number, state: count(number, state, marks), dict, name="count").sink("out")
    options = {"maxMessagesPerTrigger": "1000"}
    errors = list[str]()
    with rig(spark, tmp_path) as running:
        while True:
            try:
                values = running.run(app, Numbers(), options=options, into=tmp_path / "out", worker_memory="100kb")["out"]
                break
            except StreamingQueryException as error:
                errors.append(str(error))
    assert len(errors) == len(KILLED_AT)
    assert all("crashed" in error for error in errors), errors
    assert sorted(values) == sorted(b"%d:%d" % (key, seen) for key in range(KEYS) for seen in range(1, ROUNDS + 1))
    stored = StoredStates(spark, str(tmp_path / "checkpoint"), app.graph)
    assert {key: state["seen"] for key, state in stored.all("count")} == dict.fromkeys(range(KEYS), ROUNDS)
