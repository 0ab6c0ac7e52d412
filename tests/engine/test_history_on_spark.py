"""An application reads files of the past, then its streams, with real drivers of Spark, which are killed."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tests.faults.rig import Rig
from tests.faults.sources import Numbers, number_key, number_sequence, number_value

pytestmark = pytest.mark.timeout(900)
PARTITIONS = ("0", "1")
PAST, ALL = 900, 1_300
ROWS = """
from dataclasses import dataclass

@dataclass
class Seen:
    count: int = 0
"""
PROGRAM = """
import sys
from rows_of_history import Seen

from headrace.engine import History, build_session, start
from headrace.pipelines import Pipeline

checkpoint, gateway, table, history = sys.argv[1:]

def seen(n, state):
    state.count += 1
    return {"n": n, "count": state.count}

import pyarrow as pa
app = Pipeline("past")
numbers = app.source("numbers/*", decode=int).key_by(lambda n: n % 5)
numbers.stateful(seen, Seen, name="seen").lake(table, schema=pa.schema([("n", "int64"), ("count", "int64")]), name="rows")

if __name__ == "__main__":
    spark = build_session("past", "local[2]")
    options = {"gateway": gateway, "maxMessagesPerTrigger": "200"}
    past = History([history], then_live=True)
    start(app, spark, checkpoint, options=options, available_now=True, history=past).awaitTermination()
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Rig]:
    """A gateway, and a source whose first messages are in files, too."""
    world = Rig(tmp_path)
    try:
        source = Numbers(world.source_folder("numbers"))
        for partition in PARTITIONS:
            source.offer(partition, ALL)
        world.gateway.start()
        world.connector("numbers").start()
        yield world
    finally:
        world.dispose()


def archive(folder: Path) -> None:
    """Writes the first messages of both streams into files, out of order, and some of them twice."""
    folder.mkdir()
    rows = [(f"numbers/{partition}", n) for n in range(PAST, 0, -1) for partition in PARTITIONS]
    for number, some in enumerate([rows[:700], rows[500:1_200], rows[1_200:]]):
        table = pa.table(
            {
                "stream": [stream for stream, _ in some],
                "sequence": [number_sequence(n) for _, n in some],
                "key": [number_key(n) for _, n in some],
                "value": [b"%d" % number_value(n) for _, n in some],
            }
        )
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=200)


def rows(table: Path) -> list[dict[str, int]]:
    if not list(table.glob("micro_batch=*")):
        return []
    found: list[dict[str, int]] = ds.dataset(table, partitioning="hive").to_table(columns=["n", "count"]).to_pylist()
    return found


def is_shown(table: Path, least: int, driver: subprocess.Popen[bytes]) -> bool:
    return driver.poll() is not None or len(rows(table)) >= least


@pytest.mark.in_turn(3)
def test_kills_in_the_history_and_at_its_end_leave_each_message_of_files_and_streams_once(tmp_path: Path, world: Rig) -> None:
    table, history, program = tmp_path / "table", tmp_path / "history", tmp_path / "program.py"
    archive(history)
    program.write_text(PROGRAM)
    (tmp_path / "rows_of_history.py").write_text(ROWS)
    command = [sys.executable, str(program), str(tmp_path / "checkpoint"), world.gateway.address, str(table), str(history)]
    of_history = PAST * len(PARTITIONS)
    for shown in 1, of_history // 2, of_history:
        with (tmp_path / "driver.log").open("w") as said:
            driver = subprocess.Popen(command, stderr=said, start_new_session=True, cwd=tmp_path)
        try:
            world.wait_for(f"{shown} messages", partial(is_shown, table, shown, driver))
            assert driver.poll() is None, (tmp_path / "driver.log").read_text()
        finally:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    expected: Counter[int] = Counter(dict.fromkeys((), 0))
    for n in range(1, ALL + 1):
        expected[number_value(n)] += len(PARTITIONS)
    found = rows(table)
    assert Counter(row["n"] for row in found) == expected
    for remainder in range(5):
        counts = sorted(row["count"] for row in found if row["n"] % 5 == remainder)
        assert counts == list(range(1, len(counts) + 1)), "the state has seen each message once"
