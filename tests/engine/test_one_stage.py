"""What one task reads runs in one stage; what several tasks read is shuffled. Both continue from each other's states."""

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from tests.engine.levels import one_level, two_levels
from tests.examples.rig import rig

from headrace.connectors import FileSource
from headrace.contract.errors import HeadraceError
from headrace.engine.spark import jvm_classes

WIDE = "x" * 1_500_000
"""The rest of a message that is worth two tasks."""


@pytest.fixture
def plans(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The plans of all micro-batches that have begun, in order."""
    from headrace.engine.applications.batches.commits import Commits

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


def test_a_missing_jar_is_an_error_that_says_so(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jvm: Any = spark._jvm
    thread = jvm.java.lang.Thread.currentThread()
    loader = thread.getContextClassLoader()
    monkeypatch.setattr(jvm_classes, "JAR", tmp_path / "headrace-engine.jar")
    # That of a JVM which has not loaded the classes yet.
    thread.setContextClassLoader(loader.getParent())
    try:
        with pytest.raises(HeadraceError, match=r"headrace-engine\.jar is missing: .* install it again, or run `make jar`"):
            jvm_classes.install(spark)
    finally:
        thread.setContextClassLoader(loader)
