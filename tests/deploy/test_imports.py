"""Imports of applications that do not end: the supervisor waits for none of them, and leaves none behind."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.deploy.supervisors import SLEEPS, Watched, kill, plan, process_of, runs, stop

from headrace.deploy import Ending, IsStopped, Kind, Plan, Status, ask_processes, backoff, load_deployment, read_graphs
from headrace.deploy import graph as graph_module
from headrace.deploy import supervisor as supervisor_module
from headrace.processes import lives

WITHIN_S = 120.0
DEPLOYMENT = '[pipeline]\napp = "app.py"\n'
HANGS = "sleep 600 & echo $! $$ >> importing; wait"
APPLICATION = """
import os, subprocess, time
from pathlib import Path

import headrace.pipelines

{begins}
Path("importing.new").write_text(f"{{os.getpid()}} {{child}}\\n")
Path("importing.new").rename("importing")
time.sleep(600)
"""
ALONE = "child = os.getpid()"
WITH_A_CHILD = 'child = subprocess.Popen(["sleep", "600"], process_group=0).pid'
"""In another process group."""


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for long."""
    monkeypatch.setattr(backoff, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(supervisor_module, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("headrace.deploy.processes._ASK_EVERY_S", 0.01)


def hang_up(_: Status) -> None:
    os.kill(os.getpid(), signal.SIGHUP)


def until(condition: Callable[[], Any]) -> Any:
    """The result of a condition once it is true."""
    deadline = time.monotonic() + WITHIN_S
    for _ in itertools.count():
        if found := condition():
            return found
        assert time.monotonic() < deadline
        time.sleep(0.01)


def importing(folder: Path) -> list[int]:
    """The processes of an import, once it has named them."""
    file = folder / "importing"
    said = file.read_text() if file.exists() else ""
    return [int(pid) for pid in said.split()] if said.endswith("\n") else []


def test_an_import_at_a_reload_that_does_not_end_delays_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_module, "graph_command", lambda _: ["/bin/sh", "-c", HANGS])
    (tmp_path / "app.py").touch()
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT)
    deployment = load_deployment(tmp_path / "deploy.toml")

    def replan(is_stopped: IsStopped) -> Plan:
        raise AssertionError(read_graphs(deployment, is_stopped))

    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS), sink=(Kind.SINK, SLEEPS)), replan=replan)
    asked: list[Future[list[dict[str, Any]]]] = []
    with ThreadPoolExecutor(1) as threads:
        watched.when(runs("source", "sink"), hang_up)
        watched.when(lambda _: bool(importing(tmp_path)), kill("source"))
        restarted = lambda status: runs("source")(status) and process_of(status, "source").restarts == 1  # noqa: E731
        watched.when(restarted, lambda _: asked.append(threads.submit(ask_processes, tmp_path / "run", WITHIN_S)))
        watched.when(lambda _: asked[0].done(), stop)
        assert watched.run() == Ending(0, "stopped")
    assert {one["name"] for one in asked[0].result()} == {"gateway", "source", "sink"}
    assert watched.told == ["reload refused: the deployment is stopping"]
    assert [pid for pid in importing(tmp_path) if lives(pid)] == []


def test_the_last_of_several_reloads_wins(tmp_path: Path) -> None:
    begun = list[int]()

    def replan(is_stopped: IsStopped) -> Plan:
        begun.append(len(begun))
        if len(begun) == 1:
            until(is_stopped)
            # Nobody wants its result any longer, however it ends.
            return plan(tmp_path, sink=(Kind.SINK, SLEEPS))
        return plan(tmp_path, source=(Kind.SOURCE, SLEEPS), sink=(Kind.SINK, f"true\n{SLEEPS}"))

    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS), sink=(Kind.SINK, SLEEPS)), replan=replan)
    watched.when(runs("source", "sink"), hang_up)
    watched.when(lambda _: begun == [0], hang_up)
    watched.when(lambda status: runs("sink")(status) and process_of(status, "sink").restarts == 1, stop)
    assert watched.run() == Ending(0, "stopped")
    assert watched.told == ["reloaded: sink is restarted"]
    assert process_of(watched.statuses[-1], "source").restarts == 0


def test_a_reload_without_room_for_a_thread_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoThread:
        def __init__(self, **_: Any) -> None:
            pass

        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    # Of this module only: the test has threads of its own.
    monkeypatch.setattr("headrace.deploy.reload.threading", SimpleNamespace(**{**vars(threading), "Thread": NoThread}))
    planned = plan(tmp_path, source=(Kind.SOURCE, SLEEPS))
    watched = Watched(planned, replan=lambda _: planned)
    watched.when(runs("source"), hang_up)
    watched.when(lambda _: bool(watched.told), stop)
    assert watched.run() == Ending(0, "stopped")
    assert watched.told == ["reload refused: can't start new thread; nothing has changed"]


@pytest.mark.parametrize(
    ("options", "number", "code"),
    [([], signal.SIGTERM, 0), ([], signal.SIGINT, 0), (["--dry-run"], signal.SIGTERM, 128 + signal.SIGTERM)],
)
def test_a_deployment_that_is_stopped_during_its_first_import_leaves_nothing(
    tmp_path: Path, options: list[str], number: int, code: int
) -> None:
    command = deployed(tmp_path, WITH_A_CHILD)
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True) as process:
        pids = until(lambda: importing(tmp_path) or process.poll() is not None)
        # It reads its file again later: SIGHUP does not end it.
        process.send_signal(signal.SIGHUP)
        process.send_signal(number)
        _, said = process.communicate(timeout=WITHIN_S)
    assert process.returncode == code
    assert said == "deploy.toml stopped while its applications were imported\n"
    assert [pid for pid in pids if lives(pid)] == []


def test_an_import_does_not_outlive_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(deployed(tmp_path, ALONE)) as process:
        pid, _ = until(lambda: importing(tmp_path) or process.poll() is not None)
        process.kill()
    until(lambda: not lives(pid))


def deployed(folder: Path, begins: str) -> list[str]:
    """The command that runs a deployment whose application does not end its import."""
    (folder / "app.py").write_text(APPLICATION.format(begins=begins))
    (folder / "deploy.toml").write_text(DEPLOYMENT)
    return [sys.executable, "-m", "headrace.cli", "run", str(folder / "deploy.toml")]
