"""A test session has one temporary folder, which is gone with all processes however the session ends."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
DEADLINE_S = 150.0
TESTS = """
import os
import subprocess
import tempfile
import time
from pathlib import Path

import pytest


def test_waits(request, tmp_path):
    if "{fixture}":
        request.getfixturevalue("{fixture}")
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    Path("{said}").write_text(tempfile.gettempdir())
    try:
        time.sleep(600)
    except {caught}:
        pass


def test_never_begins():
    time.sleep(600)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A temporary folder with a short path: Spark's sockets are below it."""
    folder = Path(tempfile.mkdtemp(prefix="t"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


class Session:
    """A pytest that runs two tests, which never end by themselves; the first one catches some exceptions."""

    def __init__(self, folder: Path, tests: Path, fixture: str = "", caught: str = "()") -> None:
        self._said = tests / "said"
        file = tests / "test_that_waits.py"
        file.write_text(TESTS.format(fixture=fixture, caught=caught, said=self._said))
        command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml"), str(file)]
        self._log = tests / "log"
        with self._log.open("w") as log:
            environ = {**os.environ, "TMPDIR": str(folder)}
            self.process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=log, stderr=log, start_new_session=True)

    def started(self) -> list[psutil.Process]:
        """The processes that it has started, once its test waits; all of it keeps temporary files in a folder of the session."""
        while not self._said.exists() or not self._said.read_text():
            try:
                code = self.process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(f"it ended with {code}: {self.log}")
        own = self._said.read_text()
        children = psutil.Process(self.process.pid).children(recursive=True)
        found = [process for process in children if process.status() != psutil.STATUS_ZOMBIE]
        assert found
        for process in found:
            with suppress(psutil.NoSuchProcess):
                assert process.environ()["TMPDIR"].startswith(own), process
                if "java" in process.name():
                    assert f"-Djava.io.tmpdir={own}" in process.cmdline()
        return found

    def end(self, number: signal.Signals) -> int:
        """Sends it a signal; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_S)

    @property
    def log(self) -> str:
        return self._log.read_text()


@pytest.mark.parametrize(
    ("number", "code", "fixture", "caught"),
    [(signal.SIGTERM, 143, "spark", "KeyboardInterrupt"), (signal.SIGINT, 2, "nats", "()")],
    ids=["SIGTERM, also where a test catches it", "Ctrl-C"],
)
def test_a_session_that_is_told_to_stop_leaves_nothing_behind(
    folder: Path, tmp_path: Path, number: signal.Signals, code: int, fixture: str, caught: str
) -> None:
    session = Session(folder, tmp_path, fixture, caught)
    started = session.started()
    assert session.end(number) == code, session.log
    assert not psutil.wait_procs(started, DEADLINE_S)[1]
    assert list(folder.iterdir()) == []


def test_what_a_session_that_was_killed_leaves_behind_is_removed_by_the_next(folder: Path, tmp_path: Path) -> None:
    first = Session(folder, tmp_path)
    left = first.started()
    first.end(signal.SIGKILL)
    assert len(list(folder.iterdir())) == 1
    (tmp_path / "said").unlink()
    second = Session(folder, tmp_path)
    second.started()
    assert not psutil.wait_procs(left, DEADLINE_S)[1]
    assert len(list(folder.iterdir())) == 1
    second.end(signal.SIGTERM)
    assert list(folder.iterdir()) == []
