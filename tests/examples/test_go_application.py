"""The application whose step is a program in Go, on Spark: the program is killed in the middle, and each vote counts once."""

import os
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.docs.pages import blocks
from tests.examples.loading import Example
from tests.examples.rig import rig
from tests.sdk.go.toolchain import toolchain

from headrace.engine import StoredStates
from headrace.pipelines import Message as Sent
from headrace.pipelines import Pipeline, Trial
from headrace.sdk import Message, Position, Settings, Source

DEADLINE_S = 120.0
VOTES, AT = 6_000, 3_000
PAGE = "docs/write/programs.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The application's folder, with the program."""
    folder = tmp_path_factory.mktemp("election")
    example = Example("go_application").folder
    for path in example.glob("*.py"):
        shutil.copy(path, folder)
    shutil.copy(toolchain("examples/go_application").build(example), folder / "votes")
    return folder


class Votes(Source):
    """Votes, in the middle of which something happens, once some are committed."""

    name = "votes"

    def __init__(self, lines: list[str], then: Callable[[], None]) -> None:
        self._lines, self._then = lines, then
        self._is_committed = threading.Event()

    def read(self, partition: str, position: Position | None) -> Iterator[Message | None]:
        for sequence in range((position.sequence if position else 0) + 1, len(self._lines) + 1):
            if sequence == AT:
                while not self._is_committed.is_set():
                    yield None
                self._then()
            yield Message(self._lines[sequence - 1].encode(), sequence=sequence)

    def acknowledged(self, partition: str, position: Position) -> None:
        self._is_committed.set()


def programs() -> list[int]:
    """The processes of the program that a worker of this session has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/exe"):
        try:
            program = Path(os.readlink(path))
        except OSError:
            continue
        if program.name == "votes" and program.parent.name.startswith("programs-"):
            found.append(int(path.parent.name))
    return found


def kill() -> None:
    """Kills the program, once it runs."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := programs()):
        assert time.monotonic() < deadline, "the program does not run"
        time.sleep(0.01)
    for pid in found:
        os.kill(pid, signal.SIGKILL)


def test_each_vote_counts_once_though_the_program_is_killed(spark: SparkSession, tmp_path: Path, folder: Path) -> None:
    example = Example("go_application")
    lines = example.feed.lines(VOTES)
    app, into = example.app.app, tmp_path / "sinks"
    into.mkdir()
    options = {"maxMessagesPerTrigger": "1000"}
    with rig(spark, tmp_path) as running:
        running.settings = Settings(drain_seconds=0.1)  # The source of the query that fails gets no acknowledgements.
        with pytest.raises(Exception, match=r"step votes: the program `\./votes` was killed by signal 9, while it had block \d+"):
            running.run(app, Votes(lines, kill), into=into, folder=folder, options=options)
        found = running.run(app, Votes(lines, lambda: None), into=into, folder=folder, options=options)
    counts = Counter(line.split()[0] for line in lines if " " in line)
    totals = [f"{name} {number}" for name, count in counts.items() for number in range(1, count + 1)]
    assert sorted(value.decode() for value in found["totals"]) == sorted(totals)
    assert Counter(value.decode() for value in found["invalid"]) == Counter(line for line in lines if " " not in line)
    last = {line.split()[0]: line.split()[1].encode() for line in lines if " " in line}
    states = dict(StoredStates(spark, str(tmp_path / "checkpoint"), app.graph).all("votes"))
    assert states == {name: {"count": uvarint(count), "last": last[name]} for name, count in counts.items()}


def uvarint(number: int) -> bytes:
    """What Go's `binary.AppendUvarint` writes."""
    return bytes([number & 0x7F | 0x80, number >> 7]) if number > 0x7F else bytes([number])


@pytest.fixture
def application(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """The application, which finds its program."""
    app: Pipeline = Example("go_application").app.app
    monkeypatch.setattr(app, "_folder", folder)
    return app


def test_a_trial_runs_the_program(application: Pipeline) -> None:
    trial = Trial(application)
    trial.send(*(Sent(line, stream="votes/0") for line in (b"ada x", b"grace y", b"ada z", b"ada")))
    trial.restart()
    trial.send(Sent(b"grace x", stream="votes/0"))
    assert trial.values("totals") == [b"ada 1", b"grace 1", b"ada 2", b"grace 2"]
    assert trial.states("votes") == {"ada": {"count": b"\2", "last": b"z"}, "grace": {"count": b"\2", "last": b"x"}}
    assert [reason.rpartition(": ")[2] for reason in trial.failed] == ["a vote without a voter"]


def test_the_page_about_programs_shows_it_as_it_is(application: Pipeline) -> None:
    example = Example("go_application").folder
    (program,) = blocks(PAGE, "go")
    step, trial = blocks(PAGE, "python")
    assert program.text in (example / "main.go").read_text()
    assert step.text in (example / "app.py").read_text()
    assert "assert trial" in trial.text
    exec(compile(trial.text, PAGE, "exec"), {"app": application, "Trial": Trial, "Message": Sent})
