"""`headrace demo` as its users run it: real processes, to the end, through kills, and out of the way when it is stopped."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from headrace.laboratory.demo.chaos import PROCESSES

_MARK = "TEST_OF_THE_DEMO"
_WITHIN_S = 300.0


@pytest.fixture
def mark() -> Iterator[str]:
    """A mark that every process of one demo inherits; no process with it may be left."""
    mark = uuid.uuid4().hex
    yield mark
    assert _marked(mark) == []


def _marked(mark: str) -> list[str]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(_MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
    return found


def _command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "headrace.cli", "demo", *map(str, arguments)]


def _run(mark: str, *arguments: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, _MARK: mark, **environ}
    return subprocess.run(_command(*arguments), env=env, capture_output=True, text=True, timeout=_WITHIN_S, check=False)


@contextmanager
def _started(mark: str, *arguments: str | Path) -> Iterator["subprocess.Popen[str]"]:
    env = {**os.environ, _MARK: mark}
    process = subprocess.Popen(_command(*arguments), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        # The demo stops what it started; only a test that failed finds it still running.
        process.terminate()
        process.communicate(timeout=300)


def _eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _result(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert (document["command"], document["ok"], document["error"]) == ("demo", True, None)
    result: dict[str, Any] = document["result"]
    assert result["messages"] == result["acknowledged"] == 336_777
    assert result["checks"] == {"equal": True, "figures": 80, "differences": []}
    assert sum(airline["flights"] for airline in result["airlines"]) == 336_776
    assert result["messages_per_s"] > 0
    assert 0 < result["stream_s"] < result["elapsed_s"]
    return result


@pytest.mark.in_turn(1)
@pytest.mark.timeout(_WITHIN_S)
def test_every_figure_is_right(mark: str, tmp_path: Path) -> None:
    # What configures a user's own gateway is not for the demo.
    result = _result(_run(mark, "--json", "--keep", tmp_path / "kept", HEADRACE_GATEWAY="127.0.0.1:1", HEADRACE_TOKEN="x"))
    assert result["kills"] == []
    assert 0 < result["ack_latency_p50_s"] <= result["ack_latency_p99_s"]
    assert result["cold"]["messages"] + result["warm"]["messages"] == 336_777
    assert result["cold"]["took_s"] + result["warm"]["took_s"] == pytest.approx(result["stream_s"], abs=0.01)
    hawaiian = next(airline for airline in result["airlines"] if airline["carrier"] == "HA")
    assert hawaiian == {
        "carrier": "HA",
        "flights": 342,
        "cancelled": 0,
        "delays": 342,
        "delay_minutes": 1676,
        "worst_delay": 1301,
        "mean_delay": 1676 / 342,
    }
    assert {path.name for path in (tmp_path / "kept").iterdir()} >= {"gateway.log", "connector.log", "driver.log", "checkpoint"}


@pytest.mark.in_turn(2)
@pytest.mark.timeout(_WITHIN_S)
def test_kills_change_no_figure(mark: str) -> None:
    result = _result(_run(mark, "--chaos", "--seed", "3", "--json"))
    kills = result["kills"]
    assert {victim for kill in kills for victim in kill["victims"]} == set(PROCESSES)
    assert any(len(kill["victims"]) == 2 for kill in kills)
    for kill in kills:
        assert 0 < kill["committed"] < 336_777
        assert kill["received"] < 336_777, "the connector had nothing left to send"
        assert kill["recovered_s"] > 0
    assert (result["cold"], result["warm"]) == (None, None), "each restart of the driver is a cold JVM again"
    pids = [pid for kill in kills for pid in kill["pids"]]
    assert len(set(pids)) == len(pids)


@pytest.mark.parametrize(("signal_number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_demo_that_is_stopped_leaves_nothing(mark: str, tmp_path: Path, signal_number: int, exit_code: int) -> None:
    with _started(mark, "--keep", tmp_path) as demo:
        _eventually((tmp_path / "gateway.address").exists)
        demo.send_signal(signal_number)
        assert demo.wait(60) == exit_code
    assert _marked(mark) == []


def test_the_first_cause_is_shown_when_a_process_ends_by_itself(mark: str, tmp_path: Path) -> None:
    with _started(mark, "--keep", tmp_path) as demo:
        _eventually((tmp_path / "gateway.address").exists)
        gateway = next(child for child in psutil.Process(demo.pid).children() if "gateway" in child.cmdline())
        gateway.kill()
        _, errors = demo.communicate(timeout=300)
    assert demo.returncode == 1
    assert "the gateway ended unexpectedly with exit code -9" in errors.splitlines()[-1]


def test_without_java_it_says_what_to_do(mark: str) -> None:
    done = _run(mark, JAVA_HOME="/nowhere")
    assert done.returncode == 3
    assert done.stderr.startswith("Error: Spark needs Java 17 or newer, found none in JAVA_HOME (/nowhere); ")
    assert len(done.stderr.splitlines()) == 1
    done = _run(mark, "--json", JAVA_HOME="/nowhere")
    assert done.returncode == 3
    assert json.loads(done.stdout)["ok"] is False


def test_options_that_do_not_fit_are_refused(mark: str, tmp_path: Path) -> None:
    done = _run(mark, "--seed", "1")
    assert (done.returncode, done.stderr) == (
        2,
        "Error: --seed determines the kills of --chaos: give both, or neither\n",
    )
    (tmp_path / "other").touch()
    done = _run(mark, "--keep", tmp_path)
    assert done.returncode == 2
    assert "is not empty" in done.stderr
    assert (tmp_path / "other").exists()


def test_a_java_that_does_not_start_says_why(mark: str) -> None:
    done = _run(mark, JDK_JAVA_OPTIONS="-XX:+NoSuchOption")
    assert done.returncode == 3
    assert done.stderr == "Error: java does not start: Unrecognized VM option 'NoSuchOption'\n"
