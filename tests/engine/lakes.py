"""Drivers of one query on one table, step by step, for the tests of tables."""

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from tests.engine.one_at_a_time import Pausing, Stepped

from headrace.engine import LakeError, Replaced
from headrace.engine.checkpoint.fence import Fence
from headrace.engine.checkpoint.folder import LocalFolder
from headrace.engine.checkpoint.lake_batches import LakeBatch, joined
from headrace.engine.checkpoint.manifests import Manifest, ManifestLog
from headrace.engine.checkpoint.runs import Run, RunLog
from headrace.engine.lakes import parquet_table, staging
from headrace.engine.lakes.commits import Showing
from headrace.engine.lakes.parquet_table import ParquetTable
from headrace.engine.lakes.task_files import TaskFiles
from headrace.engine.sink.writer import Task
from headrace.pipelines import Pipeline
from headrace.pipelines.runtime import Lake

SCHEMA = pa.schema([("n", pa.int64())])
QUERY = "0b0a3a5e-0000-4000-8000-000000000001"


def lake_at(path: Path | str, format: str = "parquet", partition_by: Sequence[str] = ()) -> Lake:
    """A lake of numbers, and in partitions of their parity."""
    schema = pa.schema([*SCHEMA, *(pa.field(name, pa.string()) for name in partition_by)])
    app = Pipeline("lake")
    more: dict[str, Any] = {}
    if format == "iceberg":
        more = {"table": "test.lake.numbers", "options": {"type": "sql", "uri": f"sqlite:///{path}.catalog"}}
    app.source("n/*", decode=int).lake(path, schema=schema, format=format, partition_by=partition_by, **more)
    return app.graph.lake_steps[0]


def staged(lake: Lake, batch: int, run: int, numbers: list[int], partition: int = 0) -> tuple[LakeBatch, ...]:
    """What one attempt of a task writes."""
    with TaskFiles([lake], Task(QUERY, f"run-{run}", batch, partition, run), sync=False) as files:
        columns = {"n": numbers, **{name: ["even", "odd"] * len(numbers) for name in lake.partition_by}}
        columns = {name: values[: len(numbers)] for name, values in columns.items()}
        files.write(lake.path, pa.RecordBatch.from_pydict(columns, schema=lake.columns.schema))
        return files.finish()


def showing(lakes: list[Lake], folder: Path) -> Showing:
    return Showing(lakes, Fence(ManifestLog(LocalFolder(folder / "manifests")), None))


def numbers_in(path: Path) -> list[int]:
    if not list(path.glob("micro_batch=*")):
        return []
    return sorted(ds.dataset(path, partitioning="hive").to_table().column("n").to_pylist())


class Drivers(RuleBasedStateMachine):
    """Drivers of one query on one table, each of which may stand, die or wake at any step, and a model of its rows."""

    drivers: Bundle[Stepped] = Bundle("drivers")
    format = "parquet"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.table = self.folder / "table"
        self.lake = lake_at(self.table, self.format)
        self.runs = RunLog(LocalFolder(self.folder / "runs"))
        self.manifests = ManifestLog(LocalFolder(self.folder / "manifests"))
        self.commits: dict[int, int] = {}
        """The run that has committed each micro-batch."""
        self.os = Pausing(os, "rename", "listdir")
        self.patched = pytest.MonkeyPatch()
        for module in parquet_table, staging:
            self.patched.setattr(module, "os", self.os)
        self.started: list[Stepped] = []

    def teardown(self) -> None:
        self.os.running = None
        for driver in self.started:
            driver.kill()
        self.patched.undo()
        shutil.rmtree(self.folder)

    @initialize(partition_by=st.sampled_from([(), ("half", "third")]))
    def is_divided(self, partition_by: tuple[str, ...]) -> None:
        self.lake = lake_at(self.table, self.format, partition_by)

    @rule(target=drivers)
    def starts(self) -> Stepped:
        self.started.append(Stepped(self.run))
        return self.started[-1]

    @rule(driver=drivers, steps=st.integers(1, 60))
    def goes_on(self, driver: Stepped, steps: int) -> None:
        self.os.running = driver
        for _ in range(steps):
            driver.step()
        self.os.running = None

    @rule(driver=consumes(drivers))
    def dies(self, driver: Stepped) -> None:
        driver.kill()

    @rule()
    def somebody_compacts(self) -> None:
        """Moves the files of a micro-batch elsewhere, as a compaction does, which leaves alone what is not marked as shown."""
        shown = ParquetTable(str(self.table)).last_visible(QUERY)
        for folder in sorted(self.table.glob("micro_batch=0*"))[:1]:
            if int(folder.name.split("=")[1].split("-")[0]) <= shown:
                kept = self.table / "micro_batch=compacted"
                for file in folder.rglob("*.parquet"):
                    moved = kept / file.relative_to(folder)
                    moved.parent.mkdir(exist_ok=True, parents=True)
                    os.rename(file, moved)
                shutil.rmtree(folder)

    def run(self, driver: Stepped) -> None:
        """One run: between any two steps, and any two operations on files of the table, others may do anything."""
        before = max(self.commits, default=-1)
        with suppress(Replaced):
            run = self.runs.begin(f"run-{len(self.started)}", before if before >= 0 else None, lambda batch: None)
            driver.pause()
            try:
                self.micro_batches(driver, run)
            except LakeError:
                self.runs.check(run)  # A later run may have deleted what this one has staged.
                raise

    def micro_batches(self, driver: Stepped, run: Run) -> None:
        fence = Fence(self.manifests, self.runs)
        fence.began(run.id, run.number)
        showing = Showing([self.lake], fence)
        first = max(self.commits, default=-1) + 1
        last = self.manifests.after(first - 1, self.commits[first - 1]).lakes if first else ()
        driver.pause()
        showing.resume(QUERY, first, last, run.number)
        for batch in range(first, first + 9):
            numbers = [10 * batch + i for i in range(3)]
            written = joined(
                each
                for partition, some in enumerate([numbers[:2], numbers[2:]])
                for each in staged(self.lake, batch, run.number, some, partition)
            )
            staged(self.lake, batch, run.number, numbers, 1)  # an attempt that does not count
            driver.pause()
            showing.settle()
            with fence.guarding():
                driver.pause()
                self.manifests.write(batch, run.number, Manifest().after({}, written))
            showing.noted(batch, written)
            driver.pause()
            # As the commit log with the engine's file manager: no run adds an entry once another has started.
            self.runs.check(run)
            assert batch not in self.commits
            self.commits[batch] = run.number
            driver.pause()

    def numbers(self) -> list[int]:
        """What readers see."""
        return numbers_in(self.table)

    @invariant()
    def readers_see_whole_committed_micro_batches_once(self) -> None:
        found = Counter(self.numbers())
        seen = {number // 10 for number in found}
        assert found == Counter(10 * batch + i for batch in seen for i in range(3)), "whole, and once"
        assert seen <= self.commits.keys(), "committed"
        assert set(range(max(self.commits, default=0))) <= seen, "only the last committed one may be missing"
