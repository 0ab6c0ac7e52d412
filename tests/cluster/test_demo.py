"""`headrace demo cluster` as its users run it."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from headrace.laboratory.cluster import Worker
from headrace.laboratory.demo.cluster_view import ClusterProgress
from headrace.laboratory.demo.flights_progress import FlightsProgress
from headrace.laboratory.demo.view import LineView, ScreenView
from headrace.processes import OwnedProcess

_WITHIN_S = 600.0
_MARK = "HEADRACE_CLUSTER_DEMO_TEST"
_PROGRESS = FlightsProgress(
    elapsed_s=8.0, total=1000, received=500, committed=400, rate=100.0, ack_latency_s=0.25, airlines=(), attached=True
)


@pytest.mark.in_turn(5, 6)
@pytest.mark.timeout(_WITHIN_S)
def test_a_worker_that_is_killed_changes_no_figure_and_nothing_is_left_running(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    command = [sys.executable, "-m", "headrace.cli", "demo", "cluster", "--json", "--keep", str(tmp_path / "kept")]
    # What configures a user's own gateway is not for the demo.
    environ = {**os.environ, _MARK: mark, "HEADRACE_GATEWAY": "127.0.0.1:1", "HEADRACE_TOKEN": "x"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=_WITHIN_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert (document["command"], document["ok"], document["error"]) == ("demo cluster", True, None)
    result = document["result"]
    assert result["messages"] == result["acknowledged"] == 336_777
    assert result["checks"] == {"equal": True, "figures": 80, "differences": []}
    (kill,) = result["kills"]
    assert kill["victims"] == ["worker-2"]
    assert 0 < kill["committed"] < 336_777
    assert kill["recovered_s"] > 0
    # The executor of each worker has run tasks, and two of them outlived the third.
    executors = {worker: list(_executors(tmp_path / "kept" / "cluster", worker)) for worker in (1, 2, 3)}
    assert all("Running task" in log for logs in executors.values() for log in logs)
    assert [len(logs) for logs in executors.values()] == [1, 1, 1]
    assert _marked(mark) == []


def _executors(cluster: Path, worker: int) -> list[str]:
    """The logs of the executors that a worker has started."""
    return [log.read_text() for log in (cluster / f"worker-{worker}" / "work").glob("app-*/*/stderr")]


def _marked(mark: str) -> list[list[str]]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(_MARK) == mark:
                found.append(process.cmdline())
        except psutil.Error:
            continue
    return found


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[tuple[Worker, ...]]:
    """Two workers, as far as a picture of them goes: one that runs, and one that was killed."""
    processes = [OwnedProcess(f"worker-{n}", ["sleep", "600"], tmp_path, os.environ) for n in (1, 2)]
    for process in processes:
        process.start()
    processes[1].kill()
    yield tuple(Worker(f"127.0.0.1:700{n}", 1, "1g", tmp_path, process) for n, process in enumerate(processes, 1))
    processes[0].kill()


def test_each_line_says_how_many_workers_run(workers: tuple[Worker, ...]) -> None:
    out = StringIO()
    LineView(Console(file=out, highlight=False, width=200)).show(ClusterProgress(_PROGRESS, workers))
    assert out.getvalue().splitlines() == [f"  8.0 s  {_PROGRESS.summary()}  workers 1"]


def test_a_terminal_shows_each_worker(workers: tuple[Worker, ...]) -> None:
    out = StringIO()
    with ScreenView(Console(file=out, force_terminal=True, highlight=False, width=100, height=40)) as view:
        view.show(ClusterProgress(_PROGRESS, workers))
    for shown in ("worker-1", "127.0.0.1:7001", "runs", "worker-2", str(workers[1].pid), "killed", "messages in"):
        assert shown in out.getvalue()
