"""`headrace bench core`: its output, for programs and for people. The figures of so short a run mean nothing."""

import json
import subprocess
import sys


def test_a_quick_run_prints_its_figures_as_json() -> None:
    command = [sys.executable, "-m", "headrace.cli", "bench", "core", "--only", "latency", "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=True)
    document = json.loads(done.stdout)
    assert set(document) == {"figures", "conditions"}
    assert [f["name"] for f in document["figures"]] == ["ack_latency_p50", "ack_latency_p99"]
    for figure in document["figures"]:
        assert set(figure) == {"name", "value", "unit", "baseline", "ratio", "target", "met"}
        assert figure["value"] > 0
        assert figure["unit"] == "ms"
    assert document["conditions"]["cores"] >= 1
    assert "latency ..." in done.stderr


def test_an_unknown_part_is_refused_with_the_known_ones() -> None:
    command = [sys.executable, "-m", "headrace.cli", "bench", "core", "--only", "speed"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "throughput" in done.stderr
