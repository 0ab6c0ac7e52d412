"""`headrace bench bridge`: its output, what it leaves out, and what it needs. The figures of so short a run mean nothing."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.brokers import Kafka
from tests.absent import absent
from tests.cli.json_shape import result_of

from headrace.laboratory.bench.bridge import programs
from headrace.laboratory.bench.bridge.run import PARTS
from headrace.laboratory.commands.bench_parts import BRIDGE_PARTS


@pytest.mark.timeout(900)  # The first run fetches Debezium.
@pytest.mark.in_turn(2, 6)
def test_a_quick_run_compares_the_bridge_with_the_engine_and_the_worker(kafka: Kafka) -> None:
    if shutil.which("mvn") is None:
        absent("mvn is not installed; install Maven to test headrace bench bridge")
    command = [sys.executable, "-m", "headrace.cli", "bench", "bridge", "--quick", "--json", "--kafka", kafka.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=880, check=False)
    assert done.returncode == 0, done.stderr
    document = result_of(done.stdout)
    figures = {figure["name"]: figure for figure in document["figures"]}
    of_speed = [f"{part}{of}" for part in ("debezium_snapshot", "debezium_stream") for of in ("", "_of_worker", "_cpu")]
    others = ["bridge_rss_mb", "bridge_rss_peak_mb", "change_to_commit_p50", "change_to_commit_p50_itself"]
    assert list(figures) == [*of_speed, *others]
    assert document["conditions"]["left_out"] == {}
    assert all(figures[name]["ratio"] > 0 for name in (*of_speed, "change_to_commit_p50"))
    assert figures["debezium_snapshot"]["target"] == ">= 0.95 of the engine"
    assert figures["bridge_rss_peak_mb"]["value"] >= figures["bridge_rss_mb"]["value"] > 0


def test_without_a_checkout_it_says_that_it_needs_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(programs, "_BRIDGE", tmp_path / "absent")
    with pytest.raises(programs.ProgramsMissing, match="in a checkout"):
        programs.build(print)


def test_the_command_knows_the_parts_that_there_are() -> None:
    assert PARTS == BRIDGE_PARTS
