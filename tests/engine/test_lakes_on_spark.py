"""Tables of files that an application writes, with real drivers of Spark, which are killed."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, PyFileSystem
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyspark.sql import SparkSession
from scripts.brokers import S3
from tests.engine.test_lakes_on_s3 import s3_environ
from tests.faults.rig import Rig
from tests.faults.sources import Numbers, number_value
from tests.selection.turns import in_turns

pytestmark = pytest.mark.timeout(900)
MESSAGES = 1_200
DEADLINE_S = 300.0
ROWS = """
from dataclasses import dataclass

@dataclass
class Row:
    n: int
    parity: str

@dataclass
class Seen:
    count: int = 0
"""
PROGRAM = """
import sys
from rows_of_a_lake import Row, Seen

from headrace.engine import build_session, start
from headrace.pipelines import Pipeline

checkpoint, gateway, table, format = sys.argv[1:]

def seen(n, state):
    state.count += 1
    return {"parity": n % 2, "count": state.count}

app = Pipeline("lake")
more = {"table": "test.lake.rows", "options": {"type": "sql", "uri": f"sqlite:///{table}.catalog"}} if format == "iceberg" else {}
numbers = app.source("numbers/*", decode=int)
numbers.map(lambda n: Row(n, "odd" if n % 2 else "even")).lake(
    table, schema=Row, name="rows", format=format, **more)
numbers.key_by(lambda n: n % 2).stateful(seen, Seen, name="seen").lake(
    table + "-seen", schema=__import__("pyarrow").schema([("parity", "int32"), ("count", "int64")]), name="counts",
    format="delta" if "://" in table else "parquet")

if __name__ == "__main__":
    spark = build_session("lake", "local[2]")
    options = {"gateway": gateway, "maxMessagesPerTrigger": "200"}
    start(app, spark, checkpoint, options=options, available_now=True).awaitTermination()
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Rig]:
    """A gateway and a source of numbers."""
    world = Rig(tmp_path)
    try:
        Numbers(world.source_folder("numbers")).offer("0", MESSAGES)
        world.gateway.start()
        world.connector("numbers").start()
        yield world
    finally:
        world.dispose()


def killed_and_run_again(world: Rig, folder: Path, table: str, format: str, environ: dict[str, str]) -> None:
    """Runs the application on a table: two drivers, which are killed, and a third one, which ends. Readers see nothing else."""
    program, checkpoint = folder / "program.py", folder / "checkpoint"
    program.write_text(PROGRAM)
    (folder / "rows_of_a_lake.py").write_text(ROWS)
    command = [sys.executable, str(program), str(checkpoint), world.gateway.address, table, format]
    for shown in 1, 3:
        with (folder / "driver.log").open("w") as said:
            driver = subprocess.Popen(command, stderr=said, start_new_session=True, cwd=folder, env=environ)
        try:
            world.wait_for(f"{shown} micro-batches", partial(is_shown, table, shown, driver))
            assert driver.poll() is None, (folder / "driver.log").read_text()
        finally:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
        committed = {int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdecimal()}
        assert micro_batches(table) <= committed
        values = Counter(row["n"] for row in rows(table))
        assert values <= Counter(number_value(n) for n in range(1, MESSAGES + 1))
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=folder, env=environ)
    assert ended.returncode == 0, ended.stderr
    expected = Counter(number_value(n) for n in range(1, MESSAGES + 1))
    assert Counter(row["n"] for row in rows(table)) == expected
    counts = Counter((row["parity"], row["count"]) for row in rows(f"{table}-seen"))
    odd = sum(times for value, times in expected.items() if value % 2)
    assert counts == Counter([*((1, c + 1) for c in range(odd)), *((0, c + 1) for c in range(MESSAGES - odd))])
    pipeline = world.gateway.pipeline("lake")
    assert pipeline is not None
    assert {"rows", "seen", "counts"} <= {step.step for step in pipeline.metrics.steps}, "though it writes to no sink"


@pytest.mark.parametrize("format", in_turns(["parquet", "delta", "iceberg"], of=4))
def test_a_table_has_each_message_once_after_kills_of_its_driver_and_never_a_part_of_a_micro_batch(
    spark: SparkSession, tmp_path: Path, world: Rig, format: str
) -> None:
    table = tmp_path / "orders"
    killed_and_run_again(world, tmp_path, str(table), format, {**os.environ})
    files = {
        "parquet": lambda: [str(table)],
        "delta": lambda: DeltaTable(str(table)).file_uris(),
        "iceberg": lambda: files_of(table),
    }
    read = spark.read.parquet(*files[format]())
    assert (read.count(), {"n", "parity"} <= set(read.columns)) == (MESSAGES, True)
    assert not list((table / "_headrace" / "staged").iterdir()), "what the killed drivers have staged is deleted"


@pytest.mark.in_turn(4, 4)
def test_a_table_on_s3_has_each_message_once_after_kills_of_its_driver_and_nothing_stays_staged(
    tmp_path: Path, world: Rig, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_environ(s3).items():
        monkeypatch.setenv(name, value)
    table = f"s3://{s3.bucket}/{tmp_path.name}"
    killed_and_run_again(world, tmp_path, table, "delta", {**os.environ})
    staged = PyFileSystem(DeltaStorageHandler(table)).get_file_info(FileSelector("_headrace/staged", allow_not_found=True))
    assert staged == [], "what the killed drivers have staged is deleted"


def is_shown(table: str, number: int, driver: "subprocess.Popen[bytes]") -> bool:
    return len(micro_batches(table)) >= number or driver.poll() is not None


def micro_batches(table: str) -> set[int]:
    """The micro-batches that readers see."""
    found = {int(path.name.partition("=")[2].partition("-")[0]) for path in Path(table).glob("micro_batch=*")}
    if DeltaTable.is_deltatable(table):
        files = PyFileSystem(DeltaStorageHandler(table))
        for info in files.get_file_info(FileSelector("_delta_log")):
            if info.extension == "json":
                lines = files.open_input_file(info.path).read().splitlines()
                found |= {line["txn"]["version"] for line in map(json.loads, lines) if "txn" in line}
    if (iceberg := iceberg_at(table)) is not None:
        summaries = (snapshot.summary.additional_properties for snapshot in iceberg.snapshots() if snapshot.summary)
        found |= {int(value) for some in summaries for name, value in some.items() if name.startswith("headrace.")}
    return found


def iceberg_at(path: str | Path) -> Table | None:
    """The Iceberg table in a folder; None if none is there."""
    if not Path(f"{path}.catalog").exists():
        return None
    try:
        return SqlCatalog("test", uri=f"sqlite:///{path}.catalog").load_table("lake.rows")
    except NoSuchTableError:
        return None


def files_of(path: str | Path) -> list[str]:
    table = iceberg_at(path)
    assert table is not None
    return [task.file.file_path for task in table.scan().plan_files()]


def rows(table: str) -> list[dict[str, object]]:
    if DeltaTable.is_deltatable(table):
        return list(DeltaTable(table).to_pyarrow_table().to_pylist())
    if (iceberg := iceberg_at(table)) is not None:
        return list(iceberg.scan().to_arrow().to_pylist())
    return list(ds.dataset(table, partitioning="hive").to_table().to_pylist())
