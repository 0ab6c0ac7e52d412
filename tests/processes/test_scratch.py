"""Temporary folders with an owner: what an owner that was killed has left behind is removed by the next one."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from headrace.processes import Scratch, scratch_folder

OWNER = """
import os, subprocess, sys
from headrace.processes import Scratch

scratch = Scratch("lost")
inner = subprocess.Popen(["sleep", "600"], env={**os.environ, "TMPDIR": str(scratch.path / "inner")}, start_new_session=True)
print(scratch.path, inner.pid, flush=True)
sys.stdin.read()
"""
DEADLINE_S = 150.0


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator["subprocess.Popen[str]"]:
    """Another process that owns a folder, next to this process's."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def said(process: "subprocess.Popen[str]") -> tuple[Path, psutil.Process]:
    """The folder that it owns, and a process that belongs there."""
    assert process.stdout is not None
    folder, pid = process.stdout.readline().split()
    return Path(folder), psutil.Process(int(pid))


def test_a_folder_whose_owner_was_killed_is_removed_with_its_processes_by_the_next_owner(
    owner: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    folder, inner = said(owner)
    with scratch_folder():
        assert folder.is_dir(), "its owner runs"
    assert inner.is_running()
    owner.send_signal(signal.SIGKILL)
    owner.wait(DEADLINE_S)
    with scratch_folder("next") as own:
        assert list(tmp_path.iterdir()) == [own]
        psutil.wait_procs([inner], DEADLINE_S)
        assert not inner.is_running()
    assert list(tmp_path.iterdir()) == []


def test_folders_that_nobody_has_ever_owned_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "headrace-notes").mkdir()
    Scratch().remove()
    assert [path.name for path in tmp_path.iterdir()] == ["headrace-notes"]
