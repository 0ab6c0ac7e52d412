"""Logs of supervised processes that vanish."""

import errno
import os
import signal
from pathlib import Path

import pytest
from tests.deploy.supervisors import Watched, plan, process_of, stop

from headrace.deploy import Kind, Status
from headrace.deploy.logs import last_error_line, last_warning, size_of
from headrace.processes import OwnedProcess


@pytest.mark.parametrize("vanish", [Path.unlink, lambda log: log.rename(log.with_name("source.log.1"))], ids=["unlink", "rename"])
def test_a_process_whose_log_has_vanished_is_started_again_with_a_new_one(tmp_path: Path, vanish) -> None:
    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, "echo here; exec sleep 600")))
    log = tmp_path / "run" / "source.log"

    def lose(status: Status) -> None:
        vanish(log)
        os.kill(process_of(status, "source").pid, signal.SIGKILL)

    watched.when(lambda status: process_of(status, "source").state == "runs" and size_of(log) > 0, lose)
    watched.when(lambda status: process_of(status, "source").restarts == 1 and size_of(log) > 0, stop)
    assert watched.run().exit_code == 0


def test_a_process_that_cannot_be_started_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, left = OwnedProcess.start, [2]

    def start(process: OwnedProcess) -> None:
        if process.name == "source" and left[0]:
            left[0] -= 1
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        real(process)

    monkeypatch.setattr(OwnedProcess, "start", start)
    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, "exec sleep 600")))
    watched.when(lambda status: "cannot be started" in (process_of(status, "source").reason or ""), lambda _: None)
    watched.when(lambda status: process_of(status, "source").state == "runs", stop)
    assert watched.run().exit_code == 0


def test_a_log_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert last_error_line(tmp_path / "none.log", 7) == ""
    assert last_warning(tmp_path / "none.log", 7) == ""


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["2026-01-31T12:00:00.250Z WARNING: first", "2026-01-31T12:00:01.250Z ERROR: second", "a message"], "second"),
        (["2026-01-31T12:00:00.250Z WARNING: first", "2026-01-31T12:00:01.250Z INFO: connected"], "first"),
        (['{"level": "warning", "event": "away", "error": "no route"}', '{"level": "info", "event": "well"}'], "away: no route"),
        (["a message", "[1, 2]", "{", '"text"'], ""),
    ],
)
def test_the_last_warning_is_no_other_line_since_those_may_show_messages(tmp_path: Path, lines: list[str], said: str) -> None:
    log = tmp_path / "one.log"
    log.write_text("2026-01-31T12:00:00.250Z ERROR: of an earlier run\n")
    offset = log.stat().st_size
    with log.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)
    assert last_warning(log, offset) == said
