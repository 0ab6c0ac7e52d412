"""`headrace bench cluster`: its output. The figures of so short a run mean nothing."""

import subprocess
import sys

import pytest
from tests.cli.json_shape import result_of

from headrace.laboratory.bench.cluster.run import PARTS
from headrace.laboratory.commands.bench_parts import CLUSTER_PARTS


@pytest.mark.in_turn(3, 6)
@pytest.mark.timeout(900)
def test_a_quick_run_prints_how_long_results_pause_when_a_worker_is_lost() -> None:
    command = [sys.executable, "-m", "headrace.cli", "bench", "cluster", "--only", "worker_lost_pause_s", "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    document = result_of(done.stdout)
    (figure,) = document["figures"]
    assert (figure["name"], figure["unit"], figure["target"]) == ("worker_lost_pause_s", "s", "")
    assert figure["value"] > 0
    assert figure["ratio"] == pytest.approx(figure["value"] / figure["baseline"])
    assert document["conditions"]["quick"] is True


def test_the_command_knows_the_parts_that_there_are() -> None:
    assert tuple(PARTS) == CLUSTER_PARTS
