"""The supervisor survives each failure of what it does for comfort, with all processes still running, and names it."""

import contextlib
import errno
import os
import shutil
import signal
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.faulty_files import SHORT_WRITE, Files
from tests.deploy.supervisors import LISTENS, SLEEPS, Watched, plan, process_of, runs, stop

from headrace.deploy import Kind, NotRunning, Status, ask_processes, backoff
from headrace.deploy import log_pipes as log_pipes_module
from headrace.deploy import supervisor as supervisor_module
from headrace.deploy.comfort import Comfort, regardless
from headrace.deploy.control import ControlSocket
from headrace.deploy.log_pipes import LogPipes
from headrace.deploy.patient_disk import PatientDisk
from headrace.log_writer import file as file_module


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for long."""
    monkeypatch.setattr(backoff, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(supervisor_module, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("headrace.deploy.processes._ASK_EVERY_S", 0.01)
    monkeypatch.setattr(log_pipes_module, "MAX_BYTES", 1 << 10)
    monkeypatch.setattr(file_module, "RETRY_EVERY_S", 0.01)


NOISY = "while :; do echo a line of output; sleep 0.01; done"


SILENT = {"size_of stat", "_opened open", "_remove stat", "_remove unlink", "_look stat", "_look replace"}
SILENT |= {"_listen lstat", "_listen mkdir", "_remove lstat"}
SILENT |= {f"opened {operation}" for operation in ("mkdir", "stat", "open", "fstat")}
SILENT |= {"_look fstat", "_must_look fstat", "_write_waiting write", "_leave close", "close close"}
"""What nobody misses: what a log says of an end, a socket that stays until the next start, a file that is closed anyway, and what
a log waits for in memory, if it is over before the supervisor looks; what lasts is named, in `test_log_pipes`."""

MADE = {"close", "stat"}
"""The operations that a supervisor makes on the files of its folder in each run; whether it makes others is up to its threads."""
MADE_FOR_LOGS = {"fstat", "mkdir", "open", "replace", "write"}
"""Those that it makes instead of a log writer that cannot be started."""


def cannot_start(_: LogPipes) -> None:
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


@pytest.mark.parametrize("has_writer", [True, False])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EACCES, SHORT_WRITE])
def test_every_operation_on_files_may_fail_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, has_writer: bool
) -> None:
    """While logs are rotated, a process crashes, the file is read again, and the deployment ends.

    Without a log writer, which cannot be started, the supervisor does its work.
    """
    if not has_writer:
        monkeypatch.setattr(LogPipes, "_start", cannot_start)
    planned = plan(tmp_path, LISTENS, source=(Kind.SOURCE, NOISY), sink=(Kind.SINK, SLEEPS))
    watched, files = Watched(planned, replan=lambda _: planned), Files(monkeypatch, tmp_path / "run", error)
    rotated = tmp_path / "run" / "source.1.log"

    def crash(status: Status) -> None:
        files.fails = True
        pid = process_of(status, "sink").pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def is_done(status: Status) -> bool:
        return runs("source", "sink", "gateway")(status) and process_of(status, "sink").restarts >= 1 and os.access(rotated, 0)

    watched.when(runs("source", "sink", "gateway"), crash)
    watched.when(is_done, crash)
    watched.when(lambda status: process_of(status, "sink").restarts >= 2, lambda _: os.kill(os.getpid(), signal.SIGHUP))
    watched.when(lambda _: any(line.startswith(("reloaded", "reload refused")) for line in watched.told), stop)
    assert watched.run().exit_code == 0, watched.told
    files.fails = False
    for name in ("source", "gateway"):
        assert process_of(watched.statuses[-1], name).restarts == 0
    made = {place.rpartition(" ")[2] for place in files.failed}
    if error == SHORT_WRITE:
        assert made == {"write"} or has_writer
    else:
        assert made >= (MADE if has_writer else MADE | MADE_FOR_LOGS)
        assert "size_of" in files.failed.values()
    lines = {line for log in (tmp_path / "run").glob("source*.log") for line in log.read_text().splitlines()}
    assert lines == {"a line of output"}
    said = "\n".join((*watched.told, *{process.reason or "" for status in watched.statuses for process in status.processes}))
    assert [place for place in files.failed if place.partition(" ")[2] not in SILENT and place not in said] == []


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EACCES])
def test_a_socket_that_cannot_be_removed_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    told: list[str] = []
    with contextlib.closing(PatientDisk()) as disk, ControlSocket(tmp_path, told.append, disk) as control:
        monkeypatch.setattr(os, "unlink", failing(OSError(error, os.strerror(error))))
        control.__exit__()
        monkeypatch.undo()
        assert (tmp_path / "supervisor.socket").is_socket()


def failing(error: Exception) -> Callable[[Any], None]:
    def fail(_: Any) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        BrokenPipeError(),
        OSError(errno.EBADF, "closed"),
        ValueError("I/O operation on closed file"),
    ],
)
def test_output_that_is_full_closed_or_a_pipe_that_has_ended_ends_nothing(tmp_path: Path, error: Exception) -> None:
    regardless(failing(error))("a line")
    planned = plan(tmp_path, source=(Kind.SOURCE, SLEEPS))
    seen = []

    def show(status: Status) -> None:
        seen.append(status)
        if len(seen) > 20 and runs("source")(status):
            stop(status)
        raise error

    from tests.deploy.supervisors import Probe

    from headrace.deploy import Supervisor

    ending = Supervisor(planned, lambda _: Probe(), show).run(failing(error))
    assert ending.exit_code == 0
    assert {process_of(status, "source").restarts for status in seen} == {0}


def fifo(log: Path) -> None:
    os.mkfifo(log)


@pytest.mark.parametrize("make", [Path.mkdir, fifo])
def test_a_process_runs_without_its_log_where_something_else_is_in_its_place(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    planned = plan(tmp_path, source=(Kind.SOURCE, f"touch started; {SLEEPS}"), sink=(Kind.SINK, "exit 1"))
    (tmp_path / "run").mkdir()
    for name in ("source", "sink"):
        make(tmp_path / "run" / f"{name}.log")
    watched = Watched(planned)
    watched.when(lambda status: runs("source")(status) and process_of(status, "sink").restarts >= 2, stop)
    assert watched.run().exit_code == 0
    assert any(f"the log of source, {tmp_path / 'run' / 'source.log'}: cannot open it" in line for line in watched.told)
    assert process_of(watched.statuses[-1], "source").restarts == 0
    assert stat.S_IFMT(os.stat(tmp_path / "run" / "source.log").st_mode) != stat.S_IFREG


def test_processes_run_on_where_the_folder_or_its_lock_is_renamed(tmp_path: Path) -> None:
    planned = plan(tmp_path, source=(Kind.SOURCE, SLEEPS), sink=(Kind.SINK, SLEEPS))
    watched = Watched(planned)

    def rename(status: Status) -> None:
        (tmp_path / "run" / "supervisor.lock").rename(tmp_path / "run" / "renamed.lock")
        (tmp_path / "run").rename(tmp_path / "renamed")
        pid = process_of(status, "sink").pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    watched.when(runs("source", "sink"), rename)
    watched.when(lambda status: runs("source", "sink")(status) and process_of(status, "sink").restarts == 1, stop)
    assert watched.run().exit_code == 0
    assert process_of(watched.statuses[-1], "source").restarts == 0
    with pytest.raises(NotRunning):
        ask_processes(tmp_path / "run", 60.0)


def remove_socket(folder: Path) -> None:
    (folder / "supervisor.socket").unlink()


@pytest.mark.parametrize("vanish", [remove_socket, shutil.rmtree])
def test_commands_reach_a_deployment_again_whose_socket_or_folder_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vanish: Callable[[Path], None]
) -> None:
    monkeypatch.setattr("headrace.deploy.control.LOOK_EVERY_S", 0.01)
    watched, asked = Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS))), []
    with ThreadPoolExecutor(1) as threads:
        watched.when(runs("source"), lambda _: vanish(tmp_path / "run"))
        is_back = (tmp_path / "run" / "supervisor.socket").exists
        watched.when(lambda _: is_back(), lambda _: asked.append(threads.submit(ask_processes, tmp_path / "run", 60.0)))
        watched.when(lambda _: asked[0].done(), stop)
        assert watched.run().exit_code == 0
        assert {one["name"] for one in asked[0].result()} == {"gateway", "source"}
    assert not is_back()


def test_a_socket_of_another_supervisor_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.deploy.control.LOOK_EVERY_S", 0.0)
    told: list[str] = []
    with contextlib.closing(PatientDisk()) as disk, ControlSocket(tmp_path, told.append, disk) as control:
        (tmp_path / "supervisor.socket").unlink()
        with ControlSocket(tmp_path, told.append, disk):
            control.requests()
            control.__exit__()
            assert (tmp_path / "supervisor.socket").exists()
    assert told == []


def test_a_socket_that_cannot_be_is_told_once_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.deploy.control.LOOK_EVERY_S", 0.0)
    folder, told = tmp_path / "run", list[str]()
    folder.write_text("a file in its place")
    with contextlib.closing(PatientDisk()) as disk, ControlSocket(folder, told.append, disk) as control:
        control.requests()
        folder.unlink()
        control.requests()
        assert (folder / "supervisor.socket").is_socket()
    assert len(told) == 1
    assert "File exists" in told[0]


def test_a_fault_is_told_once_until_it_is_over() -> None:
    told: list[str] = []
    comfort = Comfort(told.append)
    for error in (OSError(errno.EIO, "no disk"), OSError(errno.EIO, "no disk"), KeyError("other"), None, KeyError("other")):
        assert comfort.do("rotate logs", (lambda error=error: failing(error)(None)) if error else lambda: None, None) is None  # type: ignore[misc]
    assert [line.partition(";")[0] for line in told] == [
        "cannot rotate logs: no disk",
        "cannot rotate logs: 'other'",
        "cannot rotate logs: 'other'",
    ]
