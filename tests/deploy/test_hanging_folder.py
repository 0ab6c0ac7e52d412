"""The folder of a deployment hangs, such as a mount whose server is away: restarts, `ps` and SIGTERM work meanwhile."""

import builtins
import fcntl
import io
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.faulty_files import OPERATIONS
from tests.deploy.supervisors import SLEEPS, Watched, kill, plan, process_of, runs, stop
from tests.deploy.test_processes import DEADLINE_S

from headrace.deploy import Ending, Kind, ask_processes, backoff
from headrace.deploy import supervisor as supervisor_module
from headrace.deploy.log_pipes import LogPipes
from headrace.deploy.patient_disk import NO_ANSWER, LastKnown, PatientDisk
from headrace.log_writer import disk as disk_module
from headrace.log_writer.disk import THREAD

CALLER = "caller"


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for long."""
    monkeypatch.setattr(backoff, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(supervisor_module, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("headrace.deploy.processes._ASK_EVERY_S", 0.01)
    monkeypatch.setattr("headrace.deploy.control.LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(disk_module, "PATIENCE_S", 0.05)


class Hanging:
    """The operations on files below a folder, which hang in threads for disks. No other thread may make one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._folder = str(folder)
        self.answers = threading.Event()
        self.answers.set()
        self.hung = set[str]()
        self.made_elsewhere = set[str]()
        for name in (*OPERATIONS, "dup"):
            self._replace(monkeypatch, os, name)
        self.cwds = set[Any]()
        begin: Any = subprocess.Popen.__init__

        def began(popen: Any, *arguments: Any, cwd: Any = None, **named: Any) -> None:
            self.cwds.add(cwd)
            begin(popen, *arguments, cwd=cwd, **named)

        monkeypatch.setattr("subprocess.Popen.__init__", began)
        for module, name in ((io, "open"), (builtins, "open"), (fcntl, "flock")):
            self._replace(monkeypatch, module, name)

    def _replace(self, monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
        real = getattr(module, name)

        def operation(*arguments: Any, **named: Any) -> Any:
            thread = threading.current_thread().name
            if not self.answers.is_set() and not thread.startswith(CALLER) and self._concerns(arguments):
                if thread != THREAD:
                    self.made_elsewhere.add(f"{name} in {thread}")
                else:
                    self.hung.add(name)
                    assert self.answers.wait(DEADLINE_S)
            return real(*arguments, **named)

        monkeypatch.setattr(module, name, operation)

    def _concerns(self, arguments: tuple[Any, ...]) -> bool:
        first = arguments[0] if arguments else None
        return isinstance(first, str | os.PathLike) and self._folder in os.fspath(first)


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    made = Hanging(monkeypatch, tmp_path / "run")
    yield made
    made.answers.set()


@pytest.mark.parametrize("comes_back", [True, False])
@pytest.mark.parametrize("has_writer", [True, False])
def test_a_folder_that_hangs_delays_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hanging: Hanging, *, has_writer: bool, comes_back: bool
) -> None:
    if not has_writer:
        monkeypatch.setattr(LogPipes, "_start", lambda _: None)
        monkeypatch.setattr("headrace.deploy.log_pipes._ENDS_WITHIN_S", 0.1)
    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS), sink=(Kind.SINK, "echo here; exit 1")))
    asked: list[Future[list[dict[str, Any]]]] = []
    restarted: Callable[[Any], bool] = lambda status: (  # noqa: E731
        runs("source")(status) and process_of(status, "source").restarts == 1 and process_of(status, "sink").restarts >= 3
    )
    with ThreadPoolExecutor(1, thread_name_prefix=CALLER) as threads:
        watched.when(runs("gateway", "source"), lambda _: hanging.answers.clear())
        watched.when(lambda _: bool(hanging.hung), kill("source"))
        watched.when(restarted, lambda _: asked.append(threads.submit(ask_processes, tmp_path / "run", DEADLINE_S)))
        watched.when(lambda _: asked[0].done(), lambda _: hanging.answers.set() if comes_back else None)
        watched.when(lambda _: not comes_back or (tmp_path / "run" / "supervisor.lock").exists(), stop)
        assert watched.run() == Ending(0, "stopped")
    assert {one["name"] for one in asked[0].result()} == {"gateway", "source", "sink"}
    assert hanging.made_elsewhere == set()
    # All threads stand still until a child is in its folder.
    assert hanging.cwds == {None}
    said = [line for line in watched.told if "there can be no socket" in line]
    assert said
    assert all(NO_ANSWER in line for line in said)
    reasons = {process_of(status, "sink").reason for status in watched.statuses}
    assert f"ended with exit code 1: {tmp_path / 'run' / 'sink.log'} cannot be read: {NO_ANSWER}" in reasons


def test_while_something_hangs_nothing_else_is_begun_and_errors_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, begun = threading.Event(), list[int]()

    def hang(number: int) -> int:
        begun.append(number)
        assert answers.wait(DEADLINE_S)
        return number

    with closing(PatientDisk()) as disk:
        for number in range(3):
            with pytest.raises(TimeoutError, match=NO_ANSWER):
                disk.ask(lambda number=number: hang(number))  # type: ignore[misc]
        assert begun == [0]
        answers.set()
        monkeypatch.setattr(disk_module, "PATIENCE_S", DEADLINE_S)
        while True:
            try:
                assert disk.ask(lambda: hang(3)) == 3
                break
            except TimeoutError:
                continue
        with pytest.raises(FileNotFoundError):
            disk.ask(lambda: os.stat("/nowhere"))
        assert disk.ask(lambda: 4) == 4


def test_a_token_whose_disk_hangs_is_the_last_one() -> None:
    answers, tokens = threading.Event(), iter(["first", "second"])

    def read() -> str:
        assert answers.wait(DEADLINE_S)
        return next(tokens)

    with closing(PatientDisk()) as disk:
        token = LastKnown(read, disk)
        with pytest.raises(TimeoutError):
            token()
        answers.set()
        # The first file was read in vain.
        while True:
            try:
                assert token() == "second"
                break
            except TimeoutError:
                continue
        answers.clear()
        assert token() == "second"
        answers.set()
