"""A process enters its working directory by itself, so that what starts it waits for no disk."""

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.processes import begun_in


def run(folder: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(begun_in(folder, command), capture_output=True, text=True, check=False, timeout=300)


def test_a_program_begins_in_the_folder_with_its_process_id_and_what_it_would_have_inherited(tmp_path: Path) -> None:
    word = "a 'b' \u00fc"
    script = 'echo $$; pwd; echo "$0"; exec grep SigIgn /proc/self/status'
    with subprocess.Popen(
        begun_in(tmp_path, ["/bin/sh", "-c", script, word]), stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        said, _ = process.communicate(timeout=300)
    assert said.splitlines() == [str(process.pid), str(tmp_path), word, "SigIgn:\t" + ignored()]


def ignored() -> str:
    """The signals that a program ignores if the test itself starts it."""
    done = subprocess.run(["grep", "SigIgn", "/proc/self/status"], capture_output=True, text=True, check=True)
    return done.stdout.split()[1]


@pytest.mark.parametrize(
    ("folder", "program", "said"),
    [
        ("nowhere", sys.executable, "{}/nowhere cannot be the working directory: No such file or directory"),
        (".", "/nowhere/python", "/nowhere/python cannot be started: No such file or directory"),
        (".", "/etc/passwd", "/etc/passwd cannot be started: Permission denied"),
    ],
)
def test_what_cannot_be_is_named_and_may_pass(tmp_path: Path, folder: str, program: str, said: str) -> None:
    done = run(tmp_path / folder, program, "-c", "pass")
    assert (done.returncode, done.stderr) == (1, f"Error: {said.format(tmp_path)}\n")
