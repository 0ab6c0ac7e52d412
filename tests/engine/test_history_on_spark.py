"""An application reads files of the past, then its streams, with real drivers of Spark, which are killed."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tests.faults.rig import Rig
from tests.faults.sources import Dated, Numbers, number_key, number_sequence, number_value

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


UNTIL = 600
OF_TIMES = """
from pathlib import Path
import pyarrow as pa
from headrace.pipelines import Pipeline

app = Pipeline("past")
dated = app.source("dated/*", decode=int)
dated.map(lambda n: {"n": n}).lake(Path(__file__).parent / "table", schema=pa.schema([("n", "int64")]), name="rows")
"""
REPLACED = ("has taken over", "another driver has started this query on the same checkpoint", "now serves another run")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Rig]:
    """A gateway, and sources whose first messages are in files, too."""
    world = Rig(tmp_path)
    try:
        for source in Numbers, Dated:
            offering = source(world.source_folder(source.name))
            for partition in PARTITIONS:
                offering.offer(partition, ALL)
        world.gateway.start()
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
    found: list[dict[str, int]] = ds.dataset(table, partitioning="hive").to_table().to_pylist()
    return found


def is_shown(table: Path, least: int, driver: subprocess.Popen[bytes]) -> bool:
    return driver.poll() is not None or len(rows(table)) >= least


def is_complete(table: Path) -> bool:
    """Whether the table has each message of both streams once, and each state has counted its own."""
    expected: Counter[int] = Counter()
    for n in range(1, ALL + 1):
        expected[number_value(n)] += len(PARTITIONS)
    found = rows(table)
    counts = [sorted(row["count"] for row in found if row["n"] % 5 == remainder) for remainder in range(5)]
    return Counter(row["n"] for row in found) == expected and all(each == list(range(1, len(each) + 1)) for each in counts)


@dataclass
class Drivers:
    """Drivers of one application, each in a process group of its own, which end with the test."""

    world: Rig
    command: list[str]
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> subprocess.Popen[bytes]:
        with self.log(len(self.started)).open("w") as said:
            self.started.append(subprocess.Popen(self.command, stderr=said, start_new_session=True, cwd=self.world.folder))
        return self.started[-1]

    def log(self, number: int) -> Path:
        return self.world.folder / f"driver-{number}.log"

    def ends(self, number: int) -> int:
        """Waits until a driver has ended; returns its exit code."""
        return self.started[number].wait(600)

    def kill(self) -> None:
        for driver in self.started:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
                driver.wait()

    def killed_after(self, shown: int, table: Path) -> None:
        """Starts a driver, and kills it once readers see this number of rows."""
        driver = self.start()
        self.world.wait_for(f"{shown} messages", partial(is_shown, table, shown, driver))
        assert driver.poll() is None, self.log(len(self.started) - 1).read_text()
        self.kill()


@pytest.fixture
def drivers(tmp_path: Path, world: Rig) -> Iterator[Drivers]:
    """Drivers of an application of numbers, whose first messages are in files with their sequences."""
    archive(tmp_path / "history")
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "rows_of_history.py").write_text(ROWS)
    arguments = [
        tmp_path / "program.py",
        tmp_path / "checkpoint",
        world.gateway.address,
        tmp_path / "table",
        tmp_path / "history",
    ]
    drivers = Drivers(world, [sys.executable, *map(str, arguments)])
    world.connector("numbers").start()
    yield drivers
    drivers.kill()


@pytest.mark.in_turn(1, 4)
def test_kills_in_the_history_and_at_its_end_leave_each_message_of_files_and_streams_once(
    tmp_path: Path, drivers: Drivers
) -> None:
    of_history = PAST * len(PARTITIONS)
    for shown in 1, of_history // 2, of_history:
        drivers.killed_after(shown, tmp_path / "table")
    drivers.start()
    assert drivers.ends(3) == 0, drivers.log(3).read_text()
    assert is_complete(tmp_path / "table")


@pytest.mark.in_turn(4, 4)
def test_a_run_that_was_frozen_in_the_history_ends_once_another_has_started_and_each_message_is_there_once(
    tmp_path: Path, world: Rig, drivers: Drivers
) -> None:
    table, older = tmp_path / "table", drivers.start()
    world.wait_for("the first rows", partial(is_shown, table, 1, older))
    assert older.poll() is None, drivers.log(0).read_text()
    os.killpg(older.pid, signal.SIGSTOP)
    later = drivers.start()
    world.wait_for("more rows", partial(is_shown, table, len(rows(table)) + 1, later))
    os.killpg(older.pid, signal.SIGCONT)
    assert drivers.ends(0) != 0
    assert any(reason in drivers.log(0).read_text() for reason in REPLACED)
    assert drivers.ends(1) == 0, drivers.log(1).read_text()
    assert is_complete(table)


@pytest.mark.in_turn(2, 4)
def test_of_two_drivers_that_start_at_once_one_reads_the_history_to_its_end_and_each_message_is_there_once(
    tmp_path: Path, drivers: Drivers
) -> None:
    for _ in range(2):
        drivers.start()
    codes = [drivers.ends(number) for number in range(2)]
    said = [drivers.log(number).read_text() for number in range(2)]
    assert 0 in codes, said
    assert all(code == 0 or any(reason in text for reason in REPLACED) for code, text in zip(codes, said, strict=True)), said
    assert is_complete(tmp_path / "table")


@pytest.mark.in_turn(3, 4)
def test_messages_before_a_time_come_from_files_and_later_ones_from_the_streams(tmp_path: Path, world: Rig) -> None:
    table, history = tmp_path / "table", tmp_path / "history.jsonl"
    lines = [{"value": str(number_value(n)), "at": n} for n in range(PAST, 0, -1) for _ in PARTITIONS]
    history.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "app.py").write_text(OF_TIMES)
    options = {
        "--checkpoint": tmp_path / "checkpoint",
        "--gateway": world.gateway.address,
        "--option": "maxMessagesPerTrigger=200",
        "--master": "local[2]",
        "--history": history,
        "--until": f"1970-01-01T00:{UNTIL // 60:02}:00Z",
    }
    columns = ["--history-column", "event_time=at:s", "--history-column", "value=value"]
    words = [str(word) for pair in options.items() for word in pair]
    command = [sys.executable, "-m", "headrace.cli", "run", str(tmp_path / "app.py"), *words, *columns, "--then-live"]
    drivers = Drivers(world, [*command, "--available-now"])
    world.connector("dated").start()
    try:
        drivers.killed_after((UNTIL - 1) * len(PARTITIONS), table)
        drivers.start()
        assert drivers.ends(1) == 0, drivers.log(1).read_text()
    finally:
        drivers.kill()
    found = ds.dataset(table, partitioning="hive").to_table(columns=["n"])["n"].to_pylist()
    assert Counter(found) == Counter(number_value(n) for n in range(1, ALL + 1) for _ in PARTITIONS)
