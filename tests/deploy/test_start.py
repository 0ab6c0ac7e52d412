"""A deployment starts although its folder has no room, and reports what it cannot do; two runs of it never meet."""

import errno
import fcntl
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from tests.deploy.faulty_files import Files
from tests.deploy.supervisors import LISTENS, SLEEPS, Probe, Watched, plan, process_of, runs, stop
from tests.disks import disk, fill

from headrace.deploy import AlreadyRuns, CannotStart, Ending, Kind, Supervisor, backoff
from headrace.deploy import supervisor as supervisor_module
from headrace.deploy.lock import exclusive_run
from headrace.deploy.log_pipes import LogPipes

SILENT = {"_listen mkdir", "_opened mkdir", "opened mkdir", "opened open", "size_of stat", "_look stat"}
SILENT |= {"close close", "_leave close", "_listen lexists", "_listen lstat", "_remove lstat", "_remove stat", "_remove unlink"}
"""What is done again before anybody misses it."""


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for long."""
    monkeypatch.setattr(backoff, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(supervisor_module, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("headrace.deploy.processes._ASK_EVERY_S", 0.01)


def test_a_deployment_starts_in_a_folder_without_room_and_catches_up_once_there_is_some(tmp_path: Path) -> None:
    with disk(tmp_path / "run", "size=64k") as folder:
        filler, lock = fill(folder), folder / "supervisor.lock"
        watched = Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS)))
        watched.when(runs("gateway", "source"), lambda _: filler.unlink())
        watched.when(lambda _: lock.read_text() == str(os.getpid()), stop)
        assert watched.run() == Ending(0, "stopped")
        assert any(f"cannot write the process id into {lock}: No space left on device" in line for line in watched.told)
        assert process_of(watched.statuses[-1], "source").restarts == 0


def test_a_folder_that_cannot_be_locked_is_named_with_what_to_do(tmp_path: Path) -> None:
    with disk(tmp_path / "run", "nr_inodes=1") as folder, pytest.raises(CannotStart) as caught:
        Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS))).run()
    assert str(caught.value).startswith(f"{folder}/supervisor.lock cannot be locked")
    assert str(caught.value).endswith(
        'No space left on device; make room there, or name another folder at the top of deploy.toml: folder = "PATH"'
    )


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EINTR])
def test_a_file_system_that_refuses_locks_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as refusing:
        refusing.setattr(fcntl, "flock", refuse)
        with pytest.raises(CannotStart) as caught:
            Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS))).run()
    assert "supervisor.lock cannot be locked" in str(caught.value)
    assert f"{os.strerror(error)}; correct that, or name another folder" in str(caught.value)
    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS)))
    watched.when(runs("gateway", "source"), stop)
    assert watched.run() == Ending(0, "stopped")


def cannot_start(_: LogPipes) -> None:
    raise OSError(errno.EAGAIN, "no process")


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_each_operation_of_a_start_fails_and_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    """One after the other: the deployment runs nevertheless, or says what it needs."""
    # The supervisor writes the logs itself.
    monkeypatch.setattr(LogPipes, "_start", cannot_start)
    files = Files(monkeypatch, tmp_path / "run", error)
    refused: list[str] = []
    while True:
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        watched = Watched(plan(tmp_path, LISTENS, source=(Kind.SOURCE, SLEEPS)))
        watched.when(runs("gateway", "source"), stop)
        files.fails, files.left, before = True, 1, set(files.failed)
        try:
            assert watched.run() == Ending(0, "stopped")
        except CannotStart as caught:
            refused.append(str(caught))
        files.fails = False
        if files.left:
            break
        (place,) = set(files.failed) - before
        assert place.partition(" ")[2] in SILENT or any(place in line for line in (*watched.told, *refused)), watched.told
    needed = {function for place, function in files.failed.items() if any(place in one for one in refused)}
    assert needed == {"_opened", "_locked"}
    assert all(str(tmp_path / "run") in one for one in refused)
    assert "_note_process_id" in files.failed.values()


def test_a_second_supervisor_is_refused_after_the_folder_of_the_first_was_removed(tmp_path: Path) -> None:
    told: list[str] = []
    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS)))

    def begin_again(_: object) -> None:
        shutil.rmtree(tmp_path / "run")
        with (
            pytest.raises(AlreadyRuns, match=f"as process {os.getpid()};"),
            exclusive_run(tmp_path / "deploy.toml", tmp_path / "run", told.append),
        ):
            told.append("locked")

    watched.when(runs("gateway", "source"), begin_again)
    watched.when(runs("gateway", "source"), stop)
    assert watched.run() == Ending(0, "stopped")
    assert told == []
    with exclusive_run(tmp_path / "deploy.toml", tmp_path / "run", told.append):
        pass


def test_processes_of_an_earlier_run_are_waited_for_after_their_folder_was_removed(tmp_path: Path) -> None:
    with exclusive_run(tmp_path / "deploy.toml", tmp_path / "run", pytest.fail) as first:
        left = subprocess.Popen(["sleep", "600"], pass_fds=first.inherits)
    shutil.rmtree(tmp_path / "run")
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        left.kill()
        left.wait()

    with exclusive_run(tmp_path / "deploy.toml", tmp_path / "run", tell):
        assert told == ["waiting for the processes of an earlier run to end"]


def test_a_deployment_that_waits_for_an_earlier_run_can_be_stopped(tmp_path: Path) -> None:
    planned, told = plan(tmp_path, source=(Kind.SOURCE, SLEEPS)), list[str]()
    with exclusive_run(tmp_path / "deploy.toml", tmp_path / "run", pytest.fail) as first:
        left = subprocess.Popen(["sleep", "600"], pass_fds=first.inherits)

    def tell(line: str) -> None:
        told.append(line)
        os.kill(os.getpid(), signal.SIGTERM)

    try:
        assert Supervisor(planned, lambda _: Probe(), lambda _: None).run(tell) == Ending(0, "stopped")
    finally:
        left.kill()
        left.wait()
    assert told == ["waiting for the processes of an earlier run to end"]


def test_two_deployments_of_one_folder_run_side_by_side(tmp_path: Path) -> None:
    with exclusive_run(tmp_path / "one.toml", tmp_path / "one", pytest.fail):
        with exclusive_run(tmp_path / "two.toml", tmp_path / "two", pytest.fail):
            pass
        # By another path.
        (tmp_path / "linked").symlink_to(tmp_path)
        with (
            pytest.raises(AlreadyRuns),
            exclusive_run(tmp_path / "linked" / "one.toml", tmp_path / "other", pytest.fail),
        ):
            pass
