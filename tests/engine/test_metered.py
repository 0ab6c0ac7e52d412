"""Counters show what committed micro-batches have counted, whichever driver dies or is replaced when."""

import json
import struct
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine.applications.batches.commits import Commits
from headrace.engine.applications.batches.metered import MeteredRun
from headrace.engine.applications.stages.reports import Report
from headrace.engine.checkpoint.folder import LocalFolder
from headrace.engine.checkpoint.manifests import Manifest, ManifestLog
from headrace.engine.checkpoint.runs import RunLog
from headrace.pipelines import Pipeline
from headrace.pipelines.runtime import Meter, Metered, StepMeasures
from headrace.protocol.v1.metrics_pb2 import MetricSeries


def meters() -> list[Meter]:
    app = Pipeline("p")
    app.source("n/*", decode=int).counter("kinds", by=str, values=["1"]).histogram("sizes", abs, [1, 2])
    return app.graph.meters


class Driver:
    """A driver that begins a run on a checkpoint of which `committed` is in the commit log."""

    def __init__(self, path: Path, name: str, committed: int, owners: dict[int, int]) -> None:
        folders = (LocalFolder(path / name) for name in ("states", "states/manifests", "runs"))
        states, manifests, runs = folders
        log = RunLog(runs)
        self.run = log.begin(name, committed, lambda batch: None)
        found = ManifestLog(manifests)
        self.commits = Commits(states, found, None, (), committed, log, 1, owners.get, meters=meters())
        self.commits.resume(found.after(committed, owners.get(committed)) if committed >= 0 else Manifest())
        self.commits.began("query", name, self.run.number)

    def prepare(self, batch: int, ones: int, sizes: list[int]) -> str | None:
        """Runs a micro-batch up to its manifest; returns what is wrong."""
        answer = self.commits.begin(str(self.run.number), str(batch))
        if answer.startswith("!"):
            return answer
        assert "kinds" not in answer, "tasks need no sums"
        reports = [
            Report(measures={"kinds": StepMeasures(received=1, series={"1": (ones,)})}),
            Report(measures={"sizes": StepMeasures(series=placed(sizes)), "kinds": StepMeasures(series={"other": (1,)})}),
        ]
        return self.commits.commit(batch, b"".join(struct.pack("!i", len(row)) + row for row in packed(reports)))

    def shown(self, committed: int) -> dict[tuple[str, str], list[float]]:
        series = self.commits.metrics(committed if committed >= 0 else None).series
        return {(one.metric, one.value): [one.count, one.sum, *one.buckets] for one in series}


def packed(reports: list[Report]) -> list[bytes]:
    return [report.row(0).packed for report in reports]


def placed(sizes: list[int]) -> dict[str, tuple[int, ...]]:
    counts = [sum(low < size <= high for size in sizes) for low, high in ((-9, 1), (1, 2), (2, 99))]
    return {"": (*counts, sum(sizes) * 10**9)}


@settings(max_examples=25, derandomize=True, database=None, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_only_what_is_committed_is_shown_and_once(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    draw, path = Random(seed), tmp_path_factory.mktemp("checkpoint")
    for name in ("states", "states/manifests", "runs"):
        (path / name).mkdir(parents=True, exist_ok=True)
    committed, owners = -1, dict[int, int]()
    ones, others, sizes = 0, 0, list[int]()
    old: Driver | None = None
    driver = Driver(path, "run-0", committed, owners)
    for step in range(12):
        some, numbers = draw.randint(0, 3), [draw.randint(0, 4) for _ in range(draw.randint(0, 3))]
        wrong = driver.prepare(committed + 1, some, numbers)
        assert wrong is None, wrong
        dies = draw.random() < 0.5
        assert shown_as(ones, others, sizes) == driver.shown(committed), f"before commits/{committed + 1} exists"
        if not dies:
            committed += 1
            owners[committed] = driver.run.number
            ones, others, sizes = ones + some, others + 1, [*sizes, *numbers]
            assert shown_as(ones, others, sizes) == driver.shown(committed)
        if dies or draw.random() < 0.3:
            if old is not None:
                old.commits.close()
            old, driver = driver, Driver(path, f"run-{step + 1}", committed, owners)
            assert shown_as(ones, others, sizes) == driver.shown(committed), "also before its first micro-batch"
        if old is not None and draw.random() < 0.5:
            answer = old.prepare(committed + 1, 100, [4] * 9)
            assert answer is not None
            assert "Replaced" in answer or "restart" in answer, answer
    driver.commits.close()
    if old is not None:
        old.commits.close()


def shown_as(ones: int, others: int, sizes: list[int]) -> dict[tuple[str, str], list[float]]:
    up_to = [sum(size <= bound for size in sizes) for bound in (1, 2)]
    return {("kinds", "1"): [ones, 0], ("kinds", "other"): [others, 0], ("sizes", ""): [len(sizes), sum(sizes), *up_to]}


names = st.text(min_size=1, max_size=5)


@given(
    st.dictionaries(
        names,
        st.builds(
            Metered,
            st.none() | st.lists(st.floats(-1e15, 1e15), max_size=3).map(tuple),
            st.dictionaries(names, st.lists(st.integers(0, 10**30), max_size=4).map(tuple), max_size=3),
        ),
        max_size=3,
    )
)
def test_a_manifest_keeps_all_sums_exactly(sums: dict[str, Metered]) -> None:
    manifest = Manifest().after({}, (), sums)
    assert Manifest.loads(manifest.dumps()) == manifest
    assert manifest.dumps(whole=False) == "[]"
    assert Manifest().dumps() == "[]", "what an application without counters writes is as before"


def test_a_release_before_reads_a_manifest_with_sums() -> None:
    text = Manifest().after({}, (), {"kinds": Metered(None, {"1": (3,)})}).dumps()
    document = json.loads(text)
    assert (document["states"], document["lakes"]) == ([], []), "it reads these, and nothing else"


def test_sums_that_the_protocol_cannot_carry_stay_at_the_largest_number() -> None:
    run = MeteredRun(meters())
    run.resume({"kinds": Metered(None, {"1": (2**70,)})})
    assert MetricSeries(metric="kinds", value="1", count=2**64 - 1) in run.to_proto(None)
