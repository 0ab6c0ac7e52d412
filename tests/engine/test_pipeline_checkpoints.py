"""States of a stopped application: they are read by key, divided anew, and never lost by a change of the pipeline unnoticed."""

import json
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner, Result
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.cli.json_shape import result_of
from tests.engine.remainders import Count, numbers
from tests.examples.rig import rig
from tests.fake_gateway.sinks import frame_of

from headrace.cli import cli
from headrace.cli import state as state_commands
from headrace.connectors import FileSink, FileSource, SinkFormat
from headrace.engine import CheckpointError, StoredStates, rescale
from headrace.engine.applications.starting.start import _dropped
from headrace.engine.checkpoint.log import CheckpointLog, Dropped
from headrace.engine.lakes.task_files import TaskFiles
from headrace.engine.sink.writer import Task
from headrace.pipelines import OnError, Pipeline, StateError, total, tumbling
from headrace.sdk import Part, Rows, Transaction


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "n" / "0"
    file.parent.mkdir()
    file.write_text("".join(f"{n}\n" for n in range(45)))
    return file


def run(
    spark: SparkSession,
    folder: Path,
    file: Path,
    app: Pipeline,
    checkpoint: str,
    drop: tuple[str, ...] = (),
    into: Path | None = None,
    migrate: tuple[str, ...] = (),
) -> dict[str, list[bytes]]:
    with rig(spark, folder) as running:
        return running.run(app, FileSource("n", [file], follow=False), checkpoint, drop, into, migrate)


def prepare(folder: Path, run: str, rows: Mapping[Transaction, bytes]) -> None:
    """Has the files of a sink hold transactions of a run that nobody has decided yet."""
    sink = FileSink("counts", folder, SinkFormat.LENGTH_PREFIXED)
    sink.recover()
    for transaction, value in rows.items():
        part = Part(transaction, 0, f"{run}/0")
        sink.stage(part, iter([Rows(frame_of([value]))]))
        sink.prepare(transaction, [part])
    sink.close()


def test_states_are_read_and_divided_anew(spark: SparkSession, tmp_path: Path, source: Path) -> None:
    first = run(spark, tmp_path, source, numbers(), "checkpoint")
    old = StoredStates(spark, str(tmp_path / "checkpoint"), numbers().graph)
    assert {size.step: size.keys for size in old.sizes()} == {"count": 7, "sums": 5}
    assert old.find("count", 3) == Count(6)
    assert old.find("count", 8) is None

    assert rescale(numbers(), spark, str(tmp_path / "checkpoint"), str(tmp_path / "more"), 5) == 12
    new = StoredStates(spark, str(tmp_path / "more"), numbers().graph)
    assert new.committed.partitions == 5
    for step in ("count", "sums"):
        assert dict(new.all(step)) == dict(old.all(step))
    with pytest.raises(CheckpointError, match="exists; a new checkpoint needs a new folder"):
        rescale(numbers(), spark, str(tmp_path / "checkpoint"), str(tmp_path / "more"), 5)

    # What the driver's death may leave at a sink: a micro-batch that is committed, and one that the new query does again.
    query, last = CheckpointLog(spark, str(tmp_path / "checkpoint")).query(), old.committed.batch
    (predecessor,) = CheckpointLog(spark, str(tmp_path / "more")).predecessors()
    assert (predecessor.query, predecessor.committed, predecessor.segments[-1].last_batch) == (query, last, last)
    run_id = predecessor.segments[-1].run
    prepare(tmp_path / "sinks" / "counts", run_id, {Transaction(query, last): b"committed", Transaction(query, last + 1): b"not"})

    with source.open("a") as file:
        file.writelines(f"{n}\n" for n in range(45, 80))
    then = run(spark, tmp_path, source, numbers(), "more", into=tmp_path / "sinks")
    assert then["counts"].pop(0) == b"committed"
    assert sorted(first["counts"] + then["counts"]) == sorted(b"%d:%d" % (n % 7, n // 7 + 1) for n in range(80))
    assert not [
        file
        for file in (tmp_path / "sinks" / "counts" / ".headrace").rglob("*")
        if file.is_file() and b"not" in file.read_bytes()
    ]
    windows = {(n % 7, n // 10): sum(m for m in range(80) if (m % 7, m // 10) == (n % 7, n // 10)) for n in range(70)}
    assert sorted(map(int, first["sums"] + then["sums"])) == sorted(windows.values())


def archived(table: Path) -> Pipeline:
    app = numbers()
    app.source("n/*", decode=int).map(lambda n: {"n": n}).lake(table, schema=pa.schema([("n", pa.int64())]), name="archive")
    return app


def test_a_query_on_divided_states_deletes_what_the_query_before_has_staged_in_lakes(
    spark: SparkSession, tmp_path: Path, source: Path
) -> None:
    app, table = archived(tmp_path / "t"), tmp_path / "t"
    run(spark, tmp_path, source, app, "checkpoint")
    log = CheckpointLog(spark, str(tmp_path / "checkpoint"))
    last = log.last_committed_batch()
    assert last is not None
    for batch in (
        last,
        last + 1,
    ):  # What its driver's death may leave: an attempt that did not count, and one of the next micro-batch.
        with TaskFiles(app.graph.lake_steps, Task(log.query(), "killed", batch, 0, 9), sync=False) as files:
            files.write(str(table), pa.RecordBatch.from_pydict({"n": [99]}))
            files.finish()
    rescale(app, spark, str(tmp_path / "checkpoint"), str(tmp_path / "more"), 3)
    with source.open("a") as file:
        file.writelines(f"{n}\n" for n in range(45, 60))
    run(spark, tmp_path, source, app, "more")
    assert sorted(ds.dataset(table, partitioning="hive").to_table()["n"].to_pylist()) == list(range(60))
    assert list((table / "_headrace" / "staged").iterdir()) == []


def lengths() -> Pipeline:
    app = Pipeline("lengths")
    app.source("n/*", decode=len).map(str).sink("counts")
    return app


def test_a_checkpoint_whose_states_are_gone_is_refused(spark: SparkSession, tmp_path: Path, source: Path) -> None:
    run(spark, tmp_path, source, numbers(), "checkpoint")
    shutil.rmtree(tmp_path / "checkpoint" / "headrace" / "states")
    with pytest.raises(CheckpointError, match=r"has no manifest of the states after micro-batch \d+, .* restore"):
        run(spark, tmp_path, source, numbers(), "checkpoint")


PROGRAM = """
from tests.engine.remainders import numbers

app = numbers()
"""


def test_the_command_shows_states_by_key(
    spark: SparkSession, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "shown_application.py"
    program.write_text(PROGRAM)
    for name in "spark_session", "spark_unless_local":
        monkeypatch.setattr(state_commands, name, lambda *_: nullcontext(spark))
    monkeypatch.setattr(sys, "path", [*sys.path])

    def state(command: str, *words: str, checkpoint: str = "checkpoint") -> Result:
        return CliRunner().invoke(cli, ["state", command, str(program), *words, "--checkpoint", str(tmp_path / checkpoint)])

    run(spark, tmp_path, source, numbers(), "checkpoint")
    shown = state("show", "--json")
    assert shown.exit_code == 0, shown.output
    assert result_of(shown.stdout)["steps"] == [
        {
            "step": "count",
            "keys": 7,
            "bound": "none: your state of each key: call context.forget(), or set ttl or max_keys",
        },
        {
            "step": "sums",
            "keys": 5,
            "bound": "a sum for each key and open window: 0:00:10 every 0:00:10, closed 0:00:00 after they end (event time)",
        },
    ]
    table = state("show").stdout.splitlines()
    assert table[0] == f"After micro-batch {result_of(shown.stdout)['batch']}:"
    assert table[1].split() == ["step", "keys", "bound"]
    named = [line.split() for line in table[2:] if not line.startswith(" ")]
    assert [words[:3] for words in named] == [["count", "7", "none:"], ["sums", "5", "a"]]

    found = state("query", "count", "3")
    batch = result_of(shown.stdout)["batch"]
    assert json.loads(found.stdout) == {"step": "count", "key": "3", "batch": batch, "state": {"seen": 6}}
    assert result_of(state("query", "count", "3", "--json").stdout) == json.loads(found.stdout)
    unknown = state("query", "count", "8")
    assert (unknown.exit_code, unknown.stderr) == (
        1,
        f"Error: step count keeps no state for key 8 after micro-batch {batch}\n",
    )
    other = state("query", "count", "three")
    assert other.exit_code == 1
    assert "its keys are of type int, such as" in other.stderr
    refused = state("query", "total", "3")
    assert refused.exit_code == 2
    assert "there is no step total with states; name one: count, sums" in refused.stderr

    few = result_of(state("query", "count", "--limit", "3", "--json").stdout)
    assert (few["step"], few["batch"], few["has_more"], len(few["states"])) == ("count", batch, True, 3)
    all_ = result_of(state("query", "count", "--json").stdout)
    assert sorted((each["key"], each["state"]["seen"]) for each in all_["states"]) == [(n, 7 if n < 3 else 6) for n in range(7)]
    assert not all_["has_more"]
    listed = state("query", "count", "--limit", "3").stdout.splitlines()
    assert listed[0] == f"After micro-batch {batch}:"
    assert len(listed) == 6
    assert "headrace state export --step count" in listed[-1]

    lines = [json.loads(line) for line in state("export", "--step", "count").stdout.splitlines()]
    assert sorted((line["key"], line["state"]["seen"]) for line in lines) == [
        (0, 7),
        (1, 7),
        (2, 7),
        *((n, 6) for n in range(3, 7)),
    ]
    assert len(state("export").stdout.splitlines()) == 12

    wrong = state("show", checkpoint="elsewhere")
    assert wrong.exit_code == 1
    assert "elsewhere has no committed micro-batch, and therefore no states; is it the right folder?" in wrong.stderr


def test_a_step_that_is_gone_is_noticed(spark: SparkSession, tmp_path: Path, source: Path) -> None:
    run(spark, tmp_path, source, numbers(), "checkpoint")
    with source.open("a") as file:
        file.write("45\n")
    with pytest.raises(
        StreamingQueryException, match="the checkpoint has states of step count, but the pipeline has no such step"
    ):
        run(spark, tmp_path, source, numbers("tally"), "checkpoint")
    found = run(spark, tmp_path, source, numbers("tally"), "checkpoint", ("count",))
    assert found["counts"] == [b"3:1"]

    # Once is enough, also where the states are looked at; and nobody finds some of them again under the old name.
    with source.open("a") as file:
        file.write("46\n52\n")
    assert sorted(run(spark, tmp_path, source, numbers("tally"), "checkpoint")["counts"]) == [b"3:2", b"4:1"]
    assert StoredStates(spark, str(tmp_path / "checkpoint"), numbers("tally").graph).find("tally", 3) == Count(2)
    with pytest.raises(CheckpointError, match=r"states of step count were dropped after micro-batch \d, .* another one"):
        run(spark, tmp_path, source, numbers(), "checkpoint")


def test_states_are_not_dropped_before_a_micro_batch_is_committed(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "commits").mkdir()
    log = CheckpointLog(spark, str(tmp_path))
    log.note_dropped({"old": None})
    assert log.dropped() == ()
    (tmp_path / "commits" / "0").touch()
    assert [each.step for each in log.dropped()] == ["old"]
    log.note_dropped({"older": 1, "old": None})
    assert [each.step for each in log.dropped()] == ["old"]
    (tmp_path / "commits" / "1").touch()
    assert log.dropped() == (Dropped("old", -1, None), Dropped("older", 0, 1))


def test_drops_of_a_start_that_has_committed_nothing_are_withdrawn(spark: SparkSession, tmp_path: Path) -> None:
    """The application as it was before continues with these states, and a later one may drop them again."""
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").touch()
    log, old, new = CheckpointLog(spark, str(tmp_path)), numbers().graph, lengths().graph
    assert _dropped(log, new, ("count", "sums")) == {"count", "sums"}
    assert _dropped(log, old, ()) == frozenset()
    (tmp_path / "commits" / "1").touch()
    assert _dropped(log, old, ()) == frozenset(), "the drop was not committed"
    assert _dropped(log, new, ("count",)) == {"count"}
    (tmp_path / "commits" / "2").touch()
    with pytest.raises(CheckpointError, match="states of step count were dropped after micro-batch 1, "):
        _dropped(log, old, ())
    assert _dropped(log, new, ("sums",)) == {"count", "sums"}
    assert log.dropped() == (Dropped("count", 1, None),)


def test_a_start_that_drops_nothing_writes_no_record_of_drops(spark: SparkSession, tmp_path: Path) -> None:
    _dropped(CheckpointLog(spark, str(tmp_path)), numbers().graph, ())
    assert list(tmp_path.iterdir()) == []


def test_a_step_that_has_changed_is_noticed(spark: SparkSession, tmp_path: Path, source: Path) -> None:
    """The sums of 0 to 39 are there; the sum of 40 to 44 is not, and continues as it began."""

    def add(*some: int) -> None:
        with source.open("a") as file:
            file.writelines(f"{n}\n" for n in some)

    run(spark, tmp_path, source, numbers(), "checkpoint")
    add(45)
    with pytest.raises(StateError, match=r"step sums is not the step .* 0:00:03 .* --migrate-states sums"):
        run(spark, tmp_path, source, numbers(size="3 s"), "checkpoint")
    assert run(spark, tmp_path, source, numbers(), "checkpoint")["counts"] == [b"3:7"], "a refused start changes nothing"
    add(46, 60)
    found = run(spark, tmp_path, source, numbers(size="3 s"), "checkpoint", migrate=("sums",))
    assert sorted(map(int, found["sums"])) == sorted([40, 41, 42, 43, 44, 45, 46])
    with pytest.raises(StateError, match="step sums is not the step"):
        run(spark, tmp_path, source, numbers(), "checkpoint")


def test_streams_that_have_ended_hold_no_window_open(spark: SparkSession, tmp_path: Path, source: Path) -> None:
    """And once all have ended, a run that is bounded gives every window its result; one that is not keeps the last ones open."""

    def sums(numbers_: range) -> list[int]:
        by_window: dict[tuple[int, int], int] = defaultdict(int)
        for n in numbers_:
            by_window[n % 7, n // 10] += n
        return sorted(by_window.values())

    def run_(app: Pipeline, files: list[Path], **started: bool) -> list[int]:
        with rig(spark, tmp_path) as running:
            found = running.run(app, FileSource("n", files, follow=False), "checkpoint", **started)
        return sorted(map(int, found["sums"]))

    second, third = source.with_name("1"), source.with_name("2")
    assert run_(numbers(), [source]) == sums(range(40))
    second.write_text("".join(f"{n}\n" for n in range(45, 80)))
    assert run_(numbers(), [source, second]) == sums(range(40, 70)), "the first file has ended, and is offered once more"
    third.write_text("".join(f"{n}\n" for n in range(80, 85)))
    assert run_(numbers(), [third], available_now=True, finish=False) == sums(range(70, 80))
    assert run_(numbers(), [source, second, third], available_now=True) == sums(range(80, 85))
    states = StoredStates(spark, str(tmp_path / "checkpoint"), numbers().graph)
    assert {size.step: size.keys for size in states.sizes()} == {"count": 7, "sums": 0}


def test_late_skipped_and_too_far_ahead_are_in_the_progress_of_the_query_and_in_the_log(
    spark: SparkSession, tmp_path: Path, source: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def check(number: int) -> bool:
        if number == 3:
            raise ValueError("three")
        return True

    app = Pipeline("counting", on_error=OnError.SKIP)
    read = app.source("n/*", decode=int, max_ahead="1 hour").event_time(lambda n: n * 1_000_000).filter(check)
    windows = read.key_by(lambda n: n % 7, name="by").window(tumbling("10 s"))
    windows.aggregate(total(), name="sums").map(str).sink("sums")
    windows.late_values().map(str, name="late-text").sink("late")
    with source.open("a") as file:
        file.writelines(f"{n}\n" for n in (40_000_000_000, 5, 6, 46))
    with rig(spark, tmp_path) as running:
        found = running.run(app, FileSource("n", [source], follow=False))
        rows = [
            progress.observedMetrics["headrace"].asDict() for progress in running.query.recentProgress if progress.numInputRows
        ]
    assert sorted(found["late"]) == [b"5", b"6"]
    counted = {name: sum(row[name] or 0 for row in rows) for name in rows[0]}
    assert {name: count for name, count in counted.items() if count} == {"late:sums": 2, "skipped:check": 1, "ahead:by": 1}

    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if "query counting, micro-batch" in record.getMessage()]

    parts = ("2 late in step sums", "1 skipped in step check", "1 ahead in step by")
    # Spark tells its listeners of a micro-batch some time after it has ended.
    deadline = time.monotonic() + 60
    while not all(any(part in line for line in told()) for part in parts):
        assert time.monotonic() < deadline, told()
        time.sleep(0.02)
    for part in parts:
        assert sum(part in line for line in told()) == 1, told()


def test_a_checkpoint_that_is_not_whole_is_refused(spark: SparkSession, tmp_path: Path, source: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "headrace-unfinished").touch()
    with pytest.raises(CheckpointError, match="is incomplete"):
        run(spark, tmp_path, source, numbers(), "checkpoint")
