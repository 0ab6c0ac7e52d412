"""What one task reads runs in one stage; what several tasks read is shuffled. Both continue from each other's states."""

import sys
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from tests.engine.levels import one_level, two_levels
from tests.examples.rig import rig

from headrace.connectors import FileSource
from headrace.engine.spark import _jvm_classes

WIDE = "x" * 1_500_000
"""The rest of a message that is worth two tasks."""


@pytest.fixture
def plans(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The plans of all micro-batches that have begun, in order."""
    from headrace.engine.applications._commits import Commits

    found: list[str] = []
    begin = Commits.begin

    def noted(self: Commits, run: str | None, batch: str) -> str:
        (query,) = spark.streams.active
        inner: Any = query._jsq  # type: ignore[attr-defined]
        execution = inner.streamingQuery() if hasattr(inner, "streamingQuery") else inner
        found.append(execution.lastExecution().executedPlan().toString())
        return begin(self, run, batch)

    monkeypatch.setattr(Commits, "begin", noted)
    return found


@pytest.mark.parametrize("pipeline", [one_level, two_levels])
def test_a_small_micro_batch_runs_in_one_stage_and_a_large_one_is_shuffled(
    spark: SparkSession, tmp_path: Path, plans: list[str], pipeline: Any
) -> None:
    file = tmp_path / "n" / "0"
    file.parent.mkdir()
    results: list[bytes] = []
    found = []
    for first, rest in ((0, ""), (10, WIDE), (20, "")):
        with file.open("a") as lines:
            lines.writelines(f"{n} {rest}\n" for n in range(first, first + 10))
        plans.clear()
        with rig(spark, tmp_path) as running:
            source = FileSource("n", [file], follow=False)
            results += running.run(pipeline(), source, available_now=True)["out"]
        found.append({plan.count("Exchange ") for plan in plans})
    assert (found[0], found[2]) == ({0}, {0})
    assert pipeline().graph.shuffles in found[1]
    twice = pipeline is two_levels
    expected = [f"{key}:{seen}" + f":{seen}" * twice for key in range(5) for seen in range(1, 7)]
    assert sorted(results) == sorted(map(str.encode, expected))


def test_a_run_that_is_over_commits_nothing(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    late = getattr(jvm.headrace.engine, "ApplicationSink$MicroBatches")("gone")
    none = spark.sparkContext._gateway.new_array(jvm.org.apache.spark.sql.connector.write.WriterCommitMessage, 0)  # type: ignore[union-attr]
    with pytest.raises(Py4JJavaError, match="run gone of this application is over"):
        late.commit(7, none)


def test_classes_are_compiled_once_for_an_environment(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()  # type: ignore[union-attr]
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    jar = _jvm_classes._jar(spark._jvm, loader)
    assert jar.parent == tmp_path
    assert _jvm_classes._jar(spark._jvm, loader) == jar
    assert [path.name for path in tmp_path.iterdir()] == [jar.name]
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "absent"))
    elsewhere = _jvm_classes._jar(spark._jvm, loader)
    assert elsewhere.exists()
    assert elsewhere.parent != tmp_path / "absent"
