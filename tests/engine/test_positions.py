"""A stopped query continues elsewhere: what it then gives is what the messages say, and nothing but a whole checkpoint is one."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.engine.remainders import counts
from tests.examples.rig import Rig, rig

from headrace.connectors import FileSource
from headrace.engine import (
    After,
    AtBatch,
    AtBeginning,
    By,
    CheckpointError,
    Direction,
    Kept,
    PositionRefused,
    StoredPositions,
    Target,
)
from headrace.engine.applications.offline.reposition import repositioned
from headrace.engine.checkpoint.moves import Change
from headrace.engine.checkpoint.position import Offset, Position

STREAM = "n/0"
SLOW = {"maxMessagesPerTrigger": "10"}


def expected(seen: Counter[int], numbers: Iterable[int]) -> list[bytes]:
    """What the application gives for numbers after it has seen others: computed without it."""
    found = []
    for number in numbers:
        seen[number % 7] += 1
        found.append(b"%d:%d" % (number, seen[number % 7]))
    return sorted(found)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "n" / "0"
    file.parent.mkdir()
    file.write_text("".join(f"{n}\n" for n in range(100, 145)))
    return file


def add(file: Path, numbers: Iterable[int]) -> None:
    with file.open("a") as out:
        out.writelines(f"{n}\n" for n in numbers)


def run(spark: SparkSession, folder: Path, file: Path, checkpoint: str, sinks: Path | None = None) -> list[bytes]:
    with rig(spark, folder) as running:
        return sorted(run_with(running, file, checkpoint, sinks))


def run_with(running: Rig, file: Path, checkpoint: str, sinks: Path | None = None) -> list[bytes]:
    return running.run(counts(), FileSource("n", [file], follow=False), checkpoint, into=sinks, options=SLOW)["out"]


def stored(spark: SparkSession, folder: Path) -> StoredPositions:
    return StoredPositions(spark, str(folder / "checkpoint"))


def move(positions: StoredPositions, folder: Path, target: Target, *, drop: bool = False, into: str = "new") -> int:
    """Moves the stream, and returns the sequence that it is then at."""
    (change,) = positions.changes(target, Direction.ANY, ["n/*"])
    positions.write(str(folder / into), [change], drop_states=drop)
    return change.after.sequence


def contents(checkpoint: Path) -> dict[str, bytes]:
    """The files of a checkpoint, without the votes, which the driver of a stopped query may still be writing."""
    files = [path for path in checkpoint.rglob("*") if "headrace-votes.json" not in path.name]
    return {str(path.relative_to(checkpoint)): path.read_bytes() for path in files if path.is_file()}


# What a move gives


def test_messages_that_come_again_count_once_more_in_the_states(spark: SparkSession, tmp_path: Path, source: Path) -> None:
    seen: Counter[int] = Counter()
    sinks = tmp_path / "sinks"
    assert run(spark, tmp_path, source, "checkpoint", sinks) == expected(seen, range(100, 145))
    before = contents(tmp_path / "checkpoint")
    positions = stored(spark, tmp_path)
    assert (positions.kept, positions.sinks, positions.abandoned) == (Kept.FILES, ("out",), None)
    # Each number is four bytes, and the sequence of a file is the number of bytes to just past its record.
    assert move(positions, tmp_path, After(4 * 30)) == 120
    assert contents(tmp_path / "checkpoint") == before, "the old checkpoint stays as it was"
    add(source, range(145, 150))
    written = sorted([*expected(Counter(), range(100, 145)), *expected(seen, range(130, 150))])
    assert run(spark, tmp_path, source, "new", sinks) == written


def test_from_the_beginning_without_states_everything_is_as_the_first_time(
    spark: SparkSession, tmp_path: Path, source: Path
) -> None:
    first = run(spark, tmp_path, source, "checkpoint")
    assert move(stored(spark, tmp_path), tmp_path, AtBeginning(), drop=True) == -1
    assert run(spark, tmp_path, source, "new") == first == expected(Counter(), range(100, 145))
    again = StoredPositions(spark, str(tmp_path / "new"))
    assert again.committed.offsets[0].streams[STREAM].sequence == 4 * 45


def test_what_is_skipped_is_never_read(spark: SparkSession, tmp_path: Path, source: Path) -> None:
    seen: Counter[int] = Counter()
    assert run(spark, tmp_path, source, "checkpoint") == expected(seen, range(100, 145))
    add(source, range(145, 180))
    assert move(stored(spark, tmp_path), tmp_path, By(4 * 15)) == 4 * 60
    assert run(spark, tmp_path, source, "new") == expected(seen, range(160, 180))


def test_a_micro_batch_is_gone_back_to(spark: SparkSession, tmp_path: Path, source: Path) -> None:
    seen: Counter[int] = Counter()
    run(spark, tmp_path, source, "checkpoint")
    expected(seen, range(100, 145))
    positions = stored(spark, tmp_path)
    points = {point.batch: point.streams[STREAM] for point in positions.points["counts"] if STREAM in point.streams}
    batch = next(number for number, at in points.items() if 0 < at.sequence < 4 * 40)
    assert move(positions, tmp_path, AtBatch(batch)) == points[batch].sequence
    last = StoredPositions(spark, str(tmp_path / "new")).committed.offsets[0]
    assert last.streams[STREAM] == points[batch]
    again = range(100 + points[batch].sequence // 4, 145)
    assert run(spark, tmp_path, source, "new") == expected(seen, again)


def test_any_query_is_moved_and_spark_keeps_what_its_operators_know(spark: SparkSession, tmp_path: Path, source: Path) -> None:
    """A query with a source of Spark beside Headrace's, which stays where it is, and with a count of Spark's own."""
    numbers = tmp_path / "others"
    numbers.mkdir()
    (numbers / "a.csv").write_text("".join(f"{n}\n" for n in range(500, 505)))
    found: dict[str, int] = {}

    def keep(frame: DataFrame, batch: int) -> None:
        found.update({row.value: row["count"] for row in frame.collect()})

    def query(checkpoint: str) -> None:
        with rig(spark, tmp_path) as running:
            given = {"gateway": running._address, "stream": "n/*", "pipeline": "plain"}
            streams = spark.readStream.format("headrace").options(**given).load().selectExpr("CAST(value AS STRING) AS value")
            files = spark.readStream.schema("value STRING").csv(str(numbers))
            writer = streams.union(files).groupBy("value").count().writeStream.outputMode("update").foreachBatch(keep)
            started = writer.option("checkpointLocation", str(tmp_path / checkpoint)).start()
            try:
                given_by = running._submit(_served(running, source))
                given_by.result(60)
                started.processAllAvailable()
            finally:
                started.stop()

    query("checkpoint")
    everything = {str(n): 1 for n in (*range(100, 145), *range(500, 505))}
    assert found == everything
    positions = stored(spark, tmp_path)
    assert positions.kept is Kept.OPERATORS
    with pytest.raises(CheckpointError, match="cannot begin without states"):
        move(positions, tmp_path, AtBeginning(), drop=True)
    move(positions, tmp_path, After(4 * 40))
    found.clear()
    query("new")
    assert found == {str(n): 2 for n in range(140, 145)}


async def _served(running: Rig, file: Path) -> None:
    from headrace.sdk import serve

    await serve(FileSource("n", [file], follow=False), gateway=running._address, settings=running.settings)


# What is not moved


def test_nothing_but_known_streams_is_moved(spark: SparkSession, tmp_path: Path, source: Path) -> None:
    run(spark, tmp_path, source, "checkpoint")
    positions = stored(spark, tmp_path)
    with pytest.raises(PositionRefused, match="no position in a stream m/0; it has: n/0"):
        positions.changes(AtBeginning(), Direction.ANY, ["m/0"])
    with pytest.raises(PositionRefused, match="no position in a stream n/0; it has: none"):
        positions.changes(AtBeginning(), Direction.ANY, ["n/0"], pipeline="other")
    assert positions.changes(By(0), Direction.ANY, ["n/0"]) == []
    (tmp_path / "new").mkdir()
    with pytest.raises(CheckpointError, match="new exists; a new checkpoint needs a new folder"):
        move(positions, tmp_path, AtBeginning())
    with pytest.raises(CheckpointError, match="no committed micro-batch, and therefore no positions"):
        StoredPositions(spark, str(tmp_path / "new"))


def test_only_the_lines_of_moved_pipelines_change_and_all_of_them_count_one_more_run() -> None:
    own = {"pipeline": "p", "checkpoint": "c", "run": 3, "run_id": "r", "streams": {"n/0": {"epoch": 0, "sequence": 9}}}
    other = {**own, "pipeline": "q"}
    entry = "\n".join(["v1", '{"conf":{}}', json.dumps(own), '{"0":7}', "-", json.dumps(other)])
    change = Change("p", "n/0", Position(0, 9), Position(0, 4, b"x"))
    first, *rest = repositioned(entry, [change], "new", drop_states=False).splitlines()[2:]
    moved = {**own, "run": 4, "run_id": "new", "streams": {"n/0": {"epoch": 0, "sequence": 4, "cursor": "eA=="}}}
    assert json.loads(first) == moved
    assert rest[:2] == ['{"0":7}', "-"]
    assert json.loads(rest[2]) == {**other, "run": 4, "run_id": "new"}


OF_STATES = {"awaited", "bootstrapped"}
OF_POSITIONS = {
    "pipeline",
    "streams",
    "finish",
    "finished",
    "checkpoint",
    "planned_at",
    "began_at",
    "history",
    "clock",
    "wall_at",
}
OF_THE_RUN = {"run_number", "run_id"}


@pytest.mark.parametrize("drop", [False, True])
def test_what_an_offset_says_of_states_goes_with_them_and_the_rest_stays(drop: bool) -> None:
    """A table whose rows are dropped is read to its present end again, and event time hears of open streams again."""
    offset = Offset(
        "p",
        {"n/0": Position(0, 9, b"c", 2, ended=True)},
        run_number=3,
        finish=2,
        finished=True,
        run_id="r",
        checkpoint="c",
        planned_at=7,
        awaited=frozenset({"n/1"}),
        began_at=5,
        history=4,
        clock=6,
        wall_at=3,
        bootstrapped=frozenset({("names", "names/*")}),
    )
    assert {each.name for each in fields(Offset)} == OF_STATES | OF_POSITIONS | OF_THE_RUN
    entry = "\n".join(["v1", "{}", json.dumps(offset.to_json())])
    found = Offset.parse(repositioned(entry, [], "new", drop_states=drop).splitlines()[2])
    unset = Offset("p", {})
    for each in OF_POSITIONS | OF_STATES:
        assert getattr(offset, each) != getattr(unset, each) or each == "pipeline", "the test gives each field a value"
        assert getattr(found, each) == getattr(unset if drop and each in OF_STATES else offset, each), each
    assert found is not None
    assert (found.run_number, found.run_id) == (4, "new")


POINTS = (
    "headrace.engine.applications.offline.reposition.StoredPositions._write_states",
    "headrace.engine.checkpoint.runs.RunLog.follow",
    "headrace.engine.checkpoint.log.CheckpointLog.note_predecessors",
    "headrace.engine.applications.offline.reposition.StoredPositions._write_logs",
    "headrace.engine.applications.offline.reposition.repositioned",
    "headrace.engine.checkpoint.log.CheckpointLog.mark_finished",
)


class Killed(BaseException):
    """The command is killed."""


def test_a_checkpoint_that_is_half_written_is_not_taken_for_a_whole_one(
    spark: SparkSession, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(spark, tmp_path, source, "checkpoint")

    def killed(*_: object, **__: object) -> None:
        raise Killed

    for number, point in enumerate(POINTS):
        half = f"half-{number}"
        with monkeypatch.context() as dying:
            dying.setattr(point, killed)
            with pytest.raises(Killed):
                move(stored(spark, tmp_path), tmp_path, After(4 * 40), into=half)
        with pytest.raises(CheckpointError, match="is incomplete"):
            run(spark, tmp_path, source, half)
        with pytest.raises(CheckpointError, match="is incomplete"):
            move(stored(spark, tmp_path), tmp_path, After(4 * 40), into=half)
        with pytest.raises(CheckpointError, match="is incomplete"):
            StoredPositions(spark, str(tmp_path / half))
    # The last one lacks only the end of its mark, and a query that is no application is refused as well.
    rows = spark.readStream.format("headrace").options(gateway="127.0.0.1:1", stream="n/*", pipeline="counts").load()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / half)).start()
    with pytest.raises(StreamingQueryException, match="is incomplete"):
        query.awaitTermination(60)


def test_a_driver_that_starts_meanwhile_is_noticed(spark: SparkSession, tmp_path: Path, source: Path) -> None:
    run(spark, tmp_path, source, "checkpoint")
    late: list[Callable[[Path], object]] = [
        lambda checkpoint: (checkpoint / "headrace" / "runs" / "9.9.late").write_text("{}"),
        lambda checkpoint: (checkpoint / "offsets" / "99").write_text(""),
        lambda checkpoint: (checkpoint / "commits" / "98").write_text(""),
    ]
    positions = stored(spark, tmp_path)
    for number, start in enumerate(late):
        start(tmp_path / "checkpoint")
        with pytest.raises(CheckpointError, match=r"a driver has started on .* meanwhile"):
            move(positions, tmp_path, After(4 * 40), into=f"half-{number}")
        assert (tmp_path / f"half-{number}" / "headrace-unfinished").exists()


def test_a_driver_that_starts_on_the_old_checkpoint_later_is_rejected(spark: SparkSession, tmp_path: Path, source: Path) -> None:
    seen: Counter[int] = Counter()
    with rig(spark, tmp_path) as running:
        assert sorted(run_with(running, source, "checkpoint")) == expected(seen, range(100, 145))
        move(stored(spark, tmp_path), tmp_path, After(4 * 40))
        assert sorted(run_with(running, source, "new")) == expected(seen, range(140, 145))
        add(source, range(145, 150))
        for _ in range(2):
            with pytest.raises(StreamingQueryException, match="has taken over"):
                run_with(running, source, "checkpoint")
        assert sorted(run_with(running, source, "new")) == expected(seen, range(145, 150))
