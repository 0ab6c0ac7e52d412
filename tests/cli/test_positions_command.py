"""`headrace positions`: what it shows, what it writes, and what it refuses; and a kill of the command itself."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession
from tests.cli.json_shape import document_of, result_of
from tests.docs.pages import blocks
from tests.engine.remainders import counts
from tests.engine.test_positions import SLOW, add, contents, expected, run, run_with
from tests.examples.rig import rig

from headrace import connectors_cli
from headrace.cli import cli, gateway_of_query
from headrace.cli.positions.move import Move, check_abandoned
from headrace.connectors import FileSource
from headrace.connectors_cli import TimePositions
from headrace.engine import CheckpointError, StoredPositions, start
from headrace.pipelines import Pipeline
from headrace.sdk import Position as PositionOfSource
from headrace.terminal import Failure

PROGRAM = """
from tests.engine.remainders import counts

app = counts()
"""
Positions = Callable[..., Result]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "n" / "0"
    file.parent.mkdir()
    add(file, range(100, 145))
    return file


@pytest.fixture
def positions(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Positions:
    """The command in this process, with its session, on the checkpoint of an application."""
    program = tmp_path / "moved_application.py"
    program.write_text(PROGRAM)
    monkeypatch.setattr("headrace.cli.positions.commands.spark_session", lambda _, on: nullcontext(spark))
    monkeypatch.setattr(gateway_of_query, "SETTLED_MS", 0)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def positions(command: str, *words: str, target: str | None = None) -> Result:
        named = [target] if target else [str(program), "--checkpoint", str(tmp_path / "checkpoint")]
        return CliRunner().invoke(cli, ["positions", command, *named, *words])

    return positions


def test_a_resumable_source_is_shown_as_such_and_not_moved(
    spark: SparkSession, tmp_path: Path, source: Path, positions: Positions
) -> None:
    run(spark, tmp_path, source, "checkpoint")
    offsets = tmp_path / "checkpoint" / "offsets"
    for file in offsets.glob("[0-9]*"):
        # As a resumable source would have left it.
        version, metadata, offset = file.read_text().splitlines()
        of_feed = json.loads(offset)
        for position in of_feed["streams"].values():
            position.update(epoch=3, begin={"epoch": 3, "sequence": 0})
        file.write_text("\n".join((version, metadata, json.dumps(of_feed))))
        (offsets / f".{file.name}.crc").unlink(missing_ok=True)

    shown = result_of(positions("show", "--json").stdout)
    assert [(row["stream"], row["epoch"], row["kind"]) for row in shown["streams"]] == [("n/0", 3, "resumable")]
    assert positions("show").stdout.splitlines()[2].split() == ["counts", "n/0", "180,", "ended", "resumable"]
    refused = positions("rewind", "--all", "--after", "160", "--dry-run", "--offline", "--states", "keep")
    assert (refused.exit_code, "its source is resumable" in refused.stderr) == (1, True), refused.output


def test_positions_are_shown_moved_and_continued_from(
    spark: SparkSession, tmp_path: Path, source: Path, positions: Positions
) -> None:
    seen: Counter[int] = Counter()
    assert run(spark, tmp_path, source, "checkpoint") == expected(seen, range(100, 145))
    shown = result_of(positions("show", "--json").stdout)
    assert [(row["pipeline"], row["stream"], row["position"], row["kind"]) for row in shown["streams"]] == [
        ("counts", "n/0", 180, "replayable")
    ]
    lines = positions("show", target=str(tmp_path / "checkpoint")).stdout.splitlines()
    assert lines[0].startswith(f"After micro-batch {shown['batch']}, planned at 20")
    assert [line.split() for line in lines[1:]] == [
        ["pipeline", "stream", "position", "source"],
        ["counts", "n/0", "180,", "ended", "replayable"],
    ]
    batches = result_of(positions("show", "--batches", "--json").stdout)["batches"]
    assert batches[0] == {**batches[0], "batch": shown["batch"], "position": 180}
    first = next(row for row in reversed(batches) if row["position"] >= 40)

    planned = document_of(positions("rewind", "--all", "--batch", str(first["batch"]), "--dry-run", "--json").stdout)
    again = 180 - first["position"]
    assert planned["result"]["streams"] == [
        {"pipeline": "counts", "stream": "n/0", "before": 180, "after": first["position"], "again": again, "skipped": 0}
    ]
    then = first["planned"].replace("Z", "+00:00")
    by_time = document_of(positions("rewind", "--all", "--time", then, "--dry-run", "--json").stdout)
    assert by_time["result"]["streams"] == planned["result"]["streams"]
    assert not (tmp_path / "new").exists()

    undecided = positions("rewind", "--all", "--after", "160", "--into", str(tmp_path / "new"), "--offline")
    assert (undecided.exit_code, "add --states keep" in undecided.stderr, "--states drop" in undecided.stderr) == (2, True, True)
    moved = positions("rewind", "--all", "--after", "160", "--into", str(tmp_path / "new"), "--offline", "--states", "keep")
    assert moved.exit_code == 0, moved.output
    assert [line.split() for line in moved.stdout.splitlines()[:2]] == [
        ["stream", "before", "after", "again", "skipped"],
        ["n/0", "180", "160", "20", "0"],
    ]
    *shown_lines, last = moved.stdout.splitlines()
    assert last.startswith(f"{tmp_path}/new is complete; continue with headrace run")
    example = next(block for block in blocks("docs/run/positions.md", "") if block.heading == "What is written").text.splitlines()
    assert [line.rstrip() for line in shown_lines] == example[:-1]
    assert run(spark, tmp_path, source, "new") == expected(seen, range(140, 145))


WRONG = {
    (): "say which streams to move: --stream PATTERN, or --all",
    ("--all", "--stream", "n/0"): "say which streams to move",
    ("--all",): "say where to continue: one of --after, --by, --time, --batch, --beginning, --end and --positions",
    ("--all", "--after", "3", "--beginning"): "--after and --beginning exclude each other",
    ("--stream", "n"): "--stream n: want source/partition",
    ("--all", "--by", "3"): "--by is for rewind and skip",
}


def test_options_that_do_not_fit_are_refused(spark: SparkSession, tmp_path: Path, source: Path, positions: Positions) -> None:
    run(spark, tmp_path, source, "checkpoint")
    for words, says in WRONG.items():
        refused = positions("set", *words, "--dry-run")
        assert (refused.exit_code, says in refused.stderr) == (2, True), refused.output
    unnamed = positions("set", "--all", "--after", "3")
    assert (unnamed.exit_code, "name the new checkpoint with --into" in unnamed.stderr) == (2, True)
    both = positions("show", "--checkpoint", "x", target=str(tmp_path / "checkpoint"))
    assert (both.exit_code, "--checkpoint is for an application" in both.stderr) == (2, True)
    for command, words, says in (
        ("rewind", ("--after", "400"), "use headrace positions skip, or set"),
        ("skip", ("--beginning",), "use headrace positions rewind, or set"),
        ("set", ("--after", "180"), "nothing would change"),
        ("set", ("--time", "2020-01-01"), "2020-01-01T00:00:00.000Z is before the oldest micro-batch"),
    ):
        refused = positions(command, "--all", *words, "--dry-run")
        assert (refused.exit_code, says in refused.stderr) == (1, True), refused.output


def test_positions_that_a_source_has_found_are_taken_from_a_file(
    spark: SparkSession, tmp_path: Path, source: Path, positions: Positions
) -> None:
    run(spark, tmp_path, source, "checkpoint")
    file = tmp_path / "found.json"
    for text, says in {
        "": "want what headrace connector positions prints: JSONDecodeError",
        "[]": "want what headrace connector positions prints",
        '{"positions": {"n/0": {}}}': "want what headrace connector positions prints: KeyError: 'sequence'",
        '{"positions": {"n/0": {"sequence": 1, "cursor": "!"}}}': "want what headrace connector positions prints",
        '{"positions": {}}': "has no positions",
    }.items():
        file.write_text(text)
        refused = positions("rewind", "--all", "--positions", str(file), "--dry-run")
        assert (refused.exit_code, says in refused.stderr) == (2, True), refused.output
    file.write_text('{"positions": {"n/1": {"sequence": 3}}}')
    refused = positions("rewind", "--all", "--positions", str(file), "--dry-run")
    assert (refused.exit_code, "stream n/0: no position is given for it" in refused.stderr) == (1, True), refused.output
    file.write_text('{"positions": {"n/0": {"epoch": 0, "sequence": 60, "cursor": "YQ=="}, "n/1": {"sequence": 3}}}')
    done = positions("rewind", "--all", "--positions", str(file), "--dry-run", "--json")
    (stream,) = json.loads(done.stdout)["result"]["streams"]
    assert (stream["stream"], stream["before"], stream["after"]) == ("n/0", 180, 60)


def test_a_time_is_found_by_the_index_of_the_source_in_one_command(
    spark: SparkSession, tmp_path: Path, source: Path, positions: Positions, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(spark, tmp_path, source, "checkpoint")
    asked: list[tuple[str, str]] = []
    found: dict[str, PositionOfSource | None] = {"n/0": PositionOfSource(sequence=60, cursor=b"a"), "n/1": None}

    def positions_of(target: str, time: datetime) -> TimePositions:
        asked.append((target, time.isoformat()))
        return TimePositions(time.isoformat(), "n", found)

    monkeypatch.setattr(connectors_cli, "positions_of", positions_of)
    words = ("--all", "--time", "2020-01-01T00:00:00Z", "--connector", "deploy.toml:n", "--states", "keep")
    into = str(tmp_path / "moved")
    done = positions("rewind", *words, "--offline", "--into", into, "--json")
    assert done.exit_code == 0, done.output
    (stream,) = json.loads(done.stdout)["result"]["streams"]
    assert (stream["stream"], stream["before"], stream["after"]) == ("n/0", 180, 60)
    (row,) = result_of(positions("show", "--json", target=into).stdout)["streams"]
    assert (row["position"], row["cursor_bytes"]) == (60, 1)
    assert asked == [("deploy.toml:n", "2020-01-01T00:00:00+00:00")]
    found["n/0"] = None
    done = positions("rewind", *words, "--offline", "--dry-run", "--json")
    assert json.loads(done.stdout)["result"]["streams"][0]["after"] is None


def test_a_command_that_is_given_again_changes_nothing(
    spark: SparkSession, tmp_path: Path, source: Path, positions: Positions
) -> None:
    """At once, for the new checkpoint, and for the old one after the query has gone on from the new one."""
    seen: Counter[int] = Counter()

    def given(into: str, target: str | None = None) -> Result:
        words = ("--all", "--after", "160", "--states", "keep", "--offline", "--into", str(tmp_path / into))
        return positions("rewind", *words, target=target)

    with rig(spark, tmp_path) as running:
        assert sorted(run_with(running, source, "checkpoint")) == expected(seen, range(100, 145))
        assert given("new").exit_code == 0
        written = contents(tmp_path / "new")
        again = given("new")
        assert (again.exit_code, f"{tmp_path / 'new'} exists" in again.stderr) == (1, True), again.output
        moved = given("newer", target=str(tmp_path / "new"))
        assert (moved.exit_code, "nothing would change" in moved.stderr) == (1, True), moved.output
        assert not (tmp_path / "newer").exists()
        assert contents(tmp_path / "new") == written
        after_the_move = expected(seen, range(140, 145))
        assert sorted(run_with(running, source, "new")) == after_the_move
        written, unmoved = contents(tmp_path / "new"), contents(tmp_path / "checkpoint")
        late = given("late")
        assert late.exit_code == 0, late.output
        # It continues from where the old checkpoint is, with its states, as the first one did.
        assert sorted(run_with(running, source, "late")) == after_the_move
        assert (contents(tmp_path / "new"), contents(tmp_path / "checkpoint")) == (written, unmoved)


def test_the_index_of_a_source_that_has_none_is_not_asked(
    spark: SparkSession, tmp_path: Path, source: Path, positions: Positions
) -> None:
    run(spark, tmp_path, source, "checkpoint")
    file = tmp_path / "deploy.toml"
    file.write_text('[connectors.n]\nconnector = "file"\nsource = "n"\npath = "*.csv"\n')
    for words, says in (
        (("--time", "2020-01-01", "--connector", f"{file}:n"), "file cannot find a time"),
        (("--time", "2020-01-01", "--connector", f"{file}:m"), "there is no connector m here"),
        (("--time", "2020-01-01", "--connector", f"{file}"), "this is a deployment; name one of its connectors"),
        (("--beginning", "--connector", f"{file}:n"), "--connector is for --time"),
    ):
        refused = positions("rewind", "--all", *words, "--dry-run")
        assert (refused.exit_code, says in refused.stderr) == (2, True), refused.output


def test_the_gateway_is_asked_whether_the_query_runs(
    spark: SparkSession, tmp_path: Path, source: Path, positions: Positions, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: Counter[int] = Counter()
    assert run(spark, tmp_path, source, "checkpoint") == expected(seen, range(100, 145))
    move = ("set", "--all", "--after", "160", "--states", "keep", "--into", str(tmp_path / "new"))
    alone = positions(*move, "--gateway", "127.0.0.1:1")
    assert alone.exit_code == 1
    assert "asked whether the query runs; if you know that it does not, add --offline" in alone.stderr
    with rig(spark, tmp_path) as running:
        to = ("--gateway", running._address)
        query = start(counts(), spark, tmp_path / "checkpoint", options={"gateway": running._address, **SLOW})
        try:
            _until(lambda: "runs" in positions(*move, *to).stderr)
            refused = positions(*move, *to)
            assert (refused.exit_code, refused.stderr) == (
                1,
                "Error: pipeline counts runs: stop its query, and repeat the command\n",
            )
        finally:
            query.stop()
        monkeypatch.setattr(gateway_of_query, "SETTLED_MS", 3_600_000)
        new = positions(*move, *to)
        assert (new.exit_code, "has just started" in new.stderr) == (1, True)
        monkeypatch.setattr(gateway_of_query, "SETTLED_MS", 0)
        assert not (tmp_path / "new").exists()
        _until(lambda: positions(*move, *to).exit_code == 0)
        assert sorted(run_with(running, source, "new")) == expected(seen, range(140, 145))


def test_the_end_is_where_the_connector_says_it_is(
    spark: SparkSession, tmp_path: Path, source: Path, positions: Positions
) -> None:
    run(spark, tmp_path, source, "checkpoint")
    with rig(spark, tmp_path) as running:
        to = ("--gateway", running._address, "--into", str(tmp_path / "new"))
        unknown = positions("skip", "--all", "--end", *to)
        assert (unknown.exit_code, "its connector has not told the gateway where it ends" in unknown.stderr) == (1, True)
        add(source, range(145, 160))
        # Another query, so that the connector has a reader.
        running.run(counts_of_another_name(), FileSource("n", [source], follow=False), "other")
        skipped = positions("skip", "--all", "--end", *to)
        assert skipped.exit_code == 0, skipped.output
    add(source, range(160, 165))
    seen: Counter[int] = Counter()
    expected(seen, range(100, 145))
    assert run(spark, tmp_path, source, "new") == expected(seen, range(160, 165))


def counts_of_another_name() -> Pipeline:
    app = Pipeline("another")
    app.source("n/*", decode=int).map(str).sink("another-out")
    return app


class _Stored:
    abandoned = 7
    sinks: tuple[str, ...] = ("out",)


class _Gateway:
    def __init__(self, unsafe: list[str]) -> None:
        self._unsafe = unsafe

    def not_two_phase(self, sinks: object) -> list[str]:
        return self._unsafe


def test_a_micro_batch_that_a_sink_may_have_written_is_not_abandoned_unasked() -> None:
    wanted = Move((), True, None, None, None, None, None, None, True, False, None, None, None, False, False, False, False)
    check_abandoned(_Stored(), wanted, _Gateway([]))  # type: ignore[arg-type]
    offline = replace(wanted, offline=True)
    nowhere = _Stored()
    nowhere.sinks = ()
    for stored, options in ((_Stored(), offline), (nowhere, wanted)):
        with pytest.raises(Failure, match=r"micro-batch 7 is planned and not committed.*--abandon"):
            check_abandoned(stored, options, _Gateway([]))  # type: ignore[arg-type]
    with pytest.raises(Failure, match="out may have written it"):
        check_abandoned(_Stored(), wanted, _Gateway(["out"]))  # type: ignore[arg-type]
    check_abandoned(_Stored(), replace(wanted, abandon=True, offline=True), _Gateway(["out"]))  # type: ignore[arg-type]


HOOK = """
import os, signal
from headrace.engine.checkpoint.copy import CheckpointCopy
write = CheckpointCopy.write

def dying(self, name, text):
    if name.startswith(os.environ["DIES_AT"]):
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, name, text)

CheckpointCopy.write = dying
from headrace.cli.root import main
main()
"""


@pytest.mark.parametrize("at", ["offsets/", "commits/"])
def test_a_command_that_is_killed_leaves_nothing_that_a_query_starts_on(
    spark: SparkSession, tmp_path: Path, source: Path, at: str
) -> None:
    run(spark, tmp_path, source, "checkpoint")
    words = ["positions", "set", str(tmp_path / "checkpoint"), "--all", "--after", "160", "--states", "keep", "--offline"]
    command = [sys.executable, "-c", HOOK, *words, "--into", str(tmp_path / "new"), "--master", "local[1]"]
    ended = subprocess.run(command, env={**os.environ, "DIES_AT": at}, capture_output=True, text=True, timeout=200)
    assert ended.returncode == -signal.SIGKILL, ended.stdout + ended.stderr
    with pytest.raises(CheckpointError, match="is incomplete"):
        run(spark, tmp_path, source, "new")
    with pytest.raises(CheckpointError, match="is incomplete"):
        StoredPositions(spark, str(tmp_path / "new"))


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
