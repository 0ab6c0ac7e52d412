"""Results and states do not share what changes: on stages of Spark, on Spark, and in real time as in a trial run."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.engine.live import live
from tests.engine.stages import Stages
from tests.examples.rig import records, rig

from headrace.connectors import FileSource
from headrace.pipelines import Message, OnError, Trial


def test_stages_give_what_a_trial_gives() -> None:
    messages = [Message(b"%d" % (n * n % 13), stream="n/0", sequence=n + 1) for n in range(40)]
    trial = Trial(live())
    for message in messages:
        trial.send(message)
        trial.restart()
    for seed, size in enumerate((1, 3, 40)):
        for on_error in (OnError.FAIL, OnError.SKIP):
            stages = Stages(live(on_error), buckets=3, workers=2, tasks=2, failing=0.2, seed=seed)
            for at in range(0, len(messages), size):
                stages.send(*messages[at : at + size])
            for sink in ("sums", "last", "all"):
                by_key: dict[bytes | None, list[bytes]] = {}
                for written in trial.written[sink]:
                    by_key.setdefault(repr(written.key).encode(), []).append(written.value)
                assert stages.by_key(sink) == by_key
            assert sorted(value for _, value in stages.written["again"]) == sorted(trial.values("again"))
            assert stages.states()["add"] == trial.states("add")


@pytest.mark.parametrize(
    "words",
    [
        {"available_now": True},
        {"available_now": True, "options": {"maxMessagesPerTrigger": "1"}, "worker_memory": "1b"},
        {"real_time": True, "trigger_interval": "200ms"},
    ],
    ids=["one micro-batch", "a micro-batch for each message", "real time"],
)
def test_spark_gives_what_a_trial_gives(spark: SparkSession, tmp_path: Path, words: dict[str, Any]) -> None:
    trial = Trial(live())
    trial.send(*(Message(b"%d" % n, stream="n/0") for n in range(4)))
    file = tmp_path / "n" / "0"
    file.parent.mkdir()
    file.write_text("".join(f"{n}\n" for n in range(4)))

    def is_complete(folder: Path) -> bool:
        return all(len(records(folder / sink)) == 4 for sink in trial.pipeline.graph.sinks)

    with rig(spark, tmp_path) as running:
        found = running.run(live(), FileSource("n", [file], follow=False), until=is_complete, **words)
    assert {sink: sorted(values) for sink, values in found.items()} == {
        sink: sorted(trial.values(sink)) for sink in trial.pipeline.graph.sinks
    }
