"""The log of a supervisor itself: written beside the logs of its processes, by the same log writer, and waiting for nobody."""

import errno
import json
import logging
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.deploy.supervisors import SLEEPS, Watched, kill, plan, process_of, runs, stop
from tests.deploy.test_log_pipes import text

from headrace.deploy import CannotRun, Kind, Status, backoff
from headrace.deploy import supervisor_log as supervisor_log_module
from headrace.deploy.aside import Aside
from headrace.deploy.log_pipes import LogPipes
from headrace.deploy.supervisor_log import SupervisorLog


def cannot_start(_: LogPipes) -> None:
    raise OSError(errno.EAGAIN, "no process")


@pytest.mark.parametrize("has_writer", [True, False])
def test_what_happens_is_in_it_though_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_writer: bool) -> None:
    """Without a log writer, the supervisor does its work."""
    monkeypatch.setattr(backoff, "FIRST_WAIT_S", 0.01)
    if not has_writer:
        monkeypatch.setattr(LogPipes, "_start", cannot_start)
    log, renamed = tmp_path / "run" / "supervisor.log", tmp_path / "run" / "supervisor.log.1"
    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS)))

    def rename(status: Status) -> None:
        log.rename(renamed)
        kill("source")(status)

    watched.when(lambda status: runs("source")(status) and "source runs" in text(log), rename)
    watched.when(lambda status: process_of(status, "source").restarts == 1 and runs("source")(status), stop)
    assert watched.run().exit_code == 0
    said = [line.partition(" INFO: ")[2] for line in text(renamed, log).splitlines()]
    steps = ("source runs", "source stops")
    assert [line for line in said if line in steps] == ["source runs", "source runs", "source stops"]
    assert said[-1] == "deploy.toml stopped"
    assert set(watched.told) <= set(said)
    assert text(renamed)
    assert text(log)


def test_it_tells_why_a_deployment_ended_and_is_json_where_the_logs_are(tmp_path: Path) -> None:
    planned = replace(plan(tmp_path, sink=(Kind.SINK, "echo 'Error: no key'; exit 2")), logs_json=True)
    with pytest.raises(CannotRun) as caught:
        Watched(planned).run()
    lines = [json.loads(line) for line in text(planned.log).splitlines()]
    assert all({"timestamp", "level", "logger", "event"} == line.keys() for line in lines)
    assert lines[-1]["event"] == f"deploy.toml has failed: {caught.value}"


def test_lines_without_room_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_log_module, "MAX_WAITING_LINES", 3)
    log = SupervisorLog(logging.Formatter("%(message)s"))
    for number in range(5):
        log.write(f"line {number}")
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    log.flush(lambda: writes)
    log.write("x" * 100_000)
    log.write("caf\udce9")
    log.close()
    log.write("after the end")
    with open(reads, "rb") as pipe:
        said = pipe.read().decode().splitlines()
    missing = "there was no room here for 2 lines of the supervisor"
    assert said == ["line 0", "line 1", "line 2", missing, f"{'x' * (16 << 10)}...", "caf\\udce9"]


def test_a_pipe_that_cannot_be_opened_is_tried_again() -> None:
    log = SupervisorLog(logging.Formatter("%(message)s"))
    log.write("a line")

    def none_left() -> int:
        # The same log names it.
        log.write("no descriptors")
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with pytest.raises(OSError, match="Too many"):
        log.flush(none_left)
    reads, writes = os.pipe()
    log.flush(lambda: writes)
    log.close()
    with open(reads, "rb") as pipe:
        assert pipe.read() == b"a line\nno descriptors\n"


def test_nobody_waits_for_a_reader_who_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that is full stands in for a terminal that is held."""
    monkeypatch.setattr("headrace.deploy.aside.MAX_WAITING_LINES", 10)
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    filled = 0
    while True:
        try:
            filled += os.write(writes, b" " * 4096)
        except BlockingIOError:
            break
    os.set_blocking(writes, True)
    aside = Aside(lambda line: os.write(writes, f"{line}\n".encode()) and None)
    for number in range(100):
        aside(f"line {number}")
    aside.close(0.0)
    with open(reads, "rb") as pipe:
        pipe.read(filled)
        accounted = 0
        while accounted < 100:
            match = re.fullmatch(
                r"line (\d+)|(\d+) lines? (?:is|are) missing here, since nobody has read them", pipe.readline().decode().strip()
            )
            assert match is not None
            assert match[1] is None or int(match[1]) == accounted
            accounted += 1 if match[2] is None else int(match[2])
    os.close(writes)
    assert accounted == 100
