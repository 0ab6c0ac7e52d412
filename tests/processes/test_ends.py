"""However a process ends, or does not: its exit code is true, it is killed with what it has left, and nobody else is."""

import errno
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from headrace.processes import OwnedProcess, lives
from headrace.processes import owned as owned_module
from headrace.processes.owned import UNKNOWN

WITHIN_S = 120.0


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WITHIN_S
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def started(folder: Path, script: str) -> OwnedProcess:
    process = OwnedProcess("process", ["/bin/sh", "-c", script], folder, dict(os.environ))
    process.start()
    return process


def code_of(process: OwnedProcess) -> int:
    found: list[int | None] = [None]

    def ended() -> bool:
        found[0] = process.exit_code()
        return found[0] is not None

    until(ended)
    assert not process.runs
    assert found[0] is not None
    return found[0]


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", -9), ("kill -TERM $$", -15)])
def test_an_exit_code_is_that_of_the_program(tmp_path: Path, script: str, code: int) -> None:
    assert code_of(started(tmp_path, script)) == code


def test_its_process_id_is_its_own_until_all_that_it_has_left_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may own it afterwards, and would be killed instead."""
    killed: list[bool] = []
    real = owned_module._send_kill

    def send_kill(session: int) -> bool:
        # One that nobody has waited for is still there, though it has ended.
        killed.append(Path(f"/proc/{session}").exists())
        return real(session)

    monkeypatch.setattr(owned_module, "_send_kill", send_kill)
    process = started(tmp_path, "sleep 600 & echo $! > child.new; mv child.new child; exit 3")
    until((tmp_path / "child").exists)
    child = int((tmp_path / "child").read_text())
    assert code_of(process) == 3
    assert not lives(child)
    process = started(tmp_path, "exit 4")
    until(lambda: not lives(process.pid))
    # None of these waits for it either.
    process.ask_to_stop()
    process.signal(signal.SIGTERM)
    process.send_kill()
    process.stop(0.0)
    assert killed
    assert all(killed)


def test_one_that_somebody_else_has_waited_for_has_not_ended_well(tmp_path: Path) -> None:
    process = started(tmp_path, "exit 0")
    os.waitpid(process.pid, 0)
    assert code_of(process) == UNKNOWN


def test_what_belongs_to_another_user_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = started(tmp_path, "sleep 600 & echo $! > child.new; mv child.new child; exit 1")
    until((tmp_path / "child").exists)
    child, kill = int((tmp_path / "child").read_text()), os.kill

    def refusing(pid: int, number: int) -> None:
        if pid == child:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        kill(pid, number)

    monkeypatch.setattr(os, "kill", refusing)
    monkeypatch.setattr(os, "killpg", lambda *_: None)
    assert code_of(process) == 1
    assert lives(child)
    kill(child, signal.SIGKILL)


def test_what_cannot_be_killed_for_the_moment_is_waited_for_without_standing_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for a disk, so that it could do harm beside its successor."""
    process, left = started(tmp_path, "exit 5"), [True]
    monkeypatch.setattr(owned_module, "_MOMENT_S", 0.0)
    monkeypatch.setattr(owned_module, "_send_kill", lambda _: left[0])
    until(lambda: not lives(process.pid))
    assert [process.exit_code() for _ in range(3)] == [None] * 3
    left[0] = False
    assert code_of(process) == 5
    process, left[0] = started(tmp_path, "exit 6"), True
    monkeypatch.setattr(owned_module, "_GONE_WITHIN_S", 0.0)
    until(lambda: not lives(process.pid))
    assert code_of(process) == 6, "it is left behind"


@pytest.mark.parametrize("failing", ["pids", "Process"])
def test_a_process_is_killed_where_descriptors_are_exhausted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def exhausted(*_: Any) -> Any:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    process = started(tmp_path, "sleep 600 & exec sleep 600")
    monkeypatch.setattr(psutil, failing, exhausted)
    monkeypatch.setattr(owned_module, "_GONE_WITHIN_S", 0.1)
    process.send_kill()
    assert code_of(process) == -signal.SIGKILL


def test_a_process_without_descendants_has_ended_soon_where_descriptors_are_exhausted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owned_module, "_GONE_WITHIN_S", 3_600.0)
    process = started(tmp_path, "exec sleep 600")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        process.send_kill()
        code = code_of(process)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert code == -signal.SIGKILL


ADOPTS = """
import ctypes, os, subprocess, sys, time
import psutil
from headrace.processes.of_session import Orphans
PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1) == 0
subprocess.run(["/bin/sh", "-c", "sleep 0 & setsid sleep 0 & (setsid sleep 600 &) &"], check=True)
own = subprocess.Popen(["/bin/sh", "-c", "exit 7"])
def zombies():
    return {child.pid for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE}
deadline = time.monotonic() + 120
while len(zombies()) < 3 and time.monotonic() < deadline:
    time.sleep(0.01)
orphans, found = Orphans(), zombies()
for now in (0, 10, 59):
    orphans.look(now)
assert zombies() >= found, "whoever has started one may still wait for it"
assert own.wait() == 7
orphans.look(70)
assert zombies() & found == set(), "all that were left"
running = [child for child in psutil.Process().children() if child.name() == "sleep"]
assert running, "one that runs is left alone"
for child in running:
    child.kill()
"""


def test_what_others_have_left_to_process_1_is_waited_for(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", ADOPTS], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
