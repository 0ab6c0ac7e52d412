"""Logs of supervised processes that vanish, or grow where there is no room."""

import errno
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO

import pytest
from tests.deploy.supervisors import Watched, plan, process_of, stop

from headrace.deploy import Kind, Status
from headrace.deploy.comfort import Comfort
from headrace.deploy.logs import Logs, last_error_line, size_of
from headrace.processes import OwnedProcess

LARGE = b"x" * (33 << 20)


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


def test_a_log_without_room_to_rotate_is_told_once_and_rotated_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, told = tmp_path / "gateway.log", []
    log.write_bytes(LARGE)
    (tmp_path / "gateway.1.log").write_bytes(b"older")
    logs = Logs(Comfort(told.append))
    with monkeypatch.context() as full:
        full.setattr("headrace.deploy.logs.shutil.copyfileobj", _fails)
        logs.keep_small([log])
        logs.keep_small([log])
    assert len(told) == 1
    assert "No space left on device" in told[0]
    assert (tmp_path / "gateway.1.log").read_bytes() == b"older"
    logs.keep_small([log])
    assert ((tmp_path / "gateway.1.log").stat().st_size, log.stat().st_size) == (len(LARGE), 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gateway.1.log", "gateway.log"]


def _fails(_: BinaryIO, to: BinaryIO, __: int) -> None:
    to.write(b"a part")
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(("room", "kept"), [(0, None), (1 << 20, None), (16 << 20, 8 << 20)])
def test_where_a_log_does_not_fit_twice_its_newest_part_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room, kept
) -> None:
    log, copy, told = tmp_path / "gateway.log", tmp_path / "gateway.1.log", []
    log.write_bytes(LARGE + b"the end")
    monkeypatch.setattr("headrace.deploy.logs.os.statvfs", lambda _: SimpleNamespace(f_bavail=room, f_frsize=1))
    Logs(Comfort(told.append)).keep_small([log])
    if kept is None:
        assert log.stat().st_size == len(LARGE) + 7
        assert not copy.exists()
    else:
        assert (log.stat().st_size, copy.stat().st_size) == (0, kept)
        assert copy.read_bytes().endswith(b"the end")
    assert len(told) == 1


def test_a_log_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert last_error_line(tmp_path / "none.log", 7) == ""
    Logs(Comfort(pytest.fail)).keep_small([tmp_path / "none.log"])
