"""`headrace soak`: everything runs for a short time, a planted leak is found, and it ends in good order on request."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

LEAK = """
import sys
import threading
import time

def leak():
    kept = []
    while True:
        kept.append(bytearray(b"x" * 100_000))
        time.sleep(0.1)

if any("soak.source" in word for word in sys.orig_argv):
    threading.Thread(target=leak, daemon=True).start()
"""
ENOUGH = 20
"""Measurements."""


@contextmanager
def soaking(*options: str, **environ: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "headrace.cli", "soak", *options]
    process = subprocess.Popen(
        command, env=os.environ | environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def said_until(process: "subprocess.Popen[str]", said: Callable[[str], bool]) -> None:
    """Waits until its progress has had a line."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if said(line):
            return
    raise AssertionError(f"it ended: {''.join(lines)}")


def is_measured(line: str) -> bool:
    """Whether there are enough measurements."""
    match = re.search(r"measured (\d+) times", line)
    return match is not None and int(match[1]) >= ENOUGH


@pytest.mark.in_turn(4, 6)
def test_a_planted_leak_is_found_and_the_rest_ends_in_good_order(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(LEAK)
    options = ["--minutes", "10", "--warm-up", "0.02", "--rate", "1000", "--keys", "200", "--master", "local[2]", "--json"]
    with soaking(*options, "--keep", str(tmp_path / "kept"), PYTHONPATH=str(tmp_path)) as process:
        said_until(process, is_measured)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=300)
        assert process.returncode == 1, out
        result = found(out, ok=False)
    assert result["stopped"]
    assert 0 < result["measured_s"] < 600
    assert (result["messages"] > 0, result["unacknowledged"]) == (True, 0)
    assert result["micro_batches"] > 0
    by_name = {one["name"]: one for one in result["processes"]}
    assert {"gateway", "driver", "sink", "source", "driver's JVM", "planner", "Python worker", "all processes"} <= set(by_name)
    source = by_name["source"]
    assert source["verdict"] == "grows", by_name
    assert 100 < source["mb_per_hour"] <= 4_500, "a MB a second at most"
    assert source["last_mb"] > source["first_mb"]
    assert [one for one in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(one.info["cmdline"] or ())] == []


def test_it_can_be_stopped_before_anything_was_measured() -> None:
    with soaking("--json") as process:
        said_until(process, lambda line: "Spark is starting" in line)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=300)
        assert process.returncode == 130
        assert found(out, ok=False)["processes"] == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--master", "spark://127.0.0.1:7077"], "local[N]"),
        (["--minutes", "5", "--warm-up", "5"], "leaves nothing to measure"),
        (["--keep", "{folder}"], "is not empty"),
    ],
)
def test_what_cannot_be_measured_is_refused(options: Sequence[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "something").touch()
    with soaking(*(option.format(folder=tmp_path) for option in options)) as process:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 2
        assert said in errors


def found(out: str, *, ok: bool) -> dict[str, Any]:
    """The result of the one object that it prints."""
    document = json.loads(out)
    assert (document["command"], document["ok"]) == ("soak", ok)
    assert document["error"] == document["summary"]
    result: dict[str, Any] = document["result"]
    return result
