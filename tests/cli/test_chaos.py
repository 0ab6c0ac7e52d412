"""`headrace chaos`: a short run by a seed, for programs."""

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from headrace.laboratory.chaos.schedule import schedule

SEED = 29
"""An executor and a source at once, then the gateway, then a sink; the driver, which takes long to start, comes later."""


@pytest.mark.in_turn(5, 6)
def test_a_run_kills_by_its_seed_and_everything_holds(tmp_path: Path) -> None:
    options = ["--minutes", "0.1", "--seed", str(SEED), "--master", "local[2,4]", "--keep", str(tmp_path / "kept"), "--json"]
    command = [sys.executable, "-m", "headrace.cli", "chaos", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=390, check=False)

    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["command"], document["ok"], document["error"]) == ("chaos", True, None)
    result = document["result"]
    assert (result["seed"], result["findings"]) == (SEED, [])
    strikes = list(islice(schedule(SEED), len(result["kills"])))
    assert [killed["roles"] for killed in result["kills"]] == [[str(role) for role in strike.first] for strike in strikes]
    assert all(killed["pids"] and killed["recovered_s"] > 0 for killed in result["kills"])
    assert result["messages"] > 0
    assert "seed 29" in done.stderr
    assert "kill -9 executor and replayable" in done.stderr
    assert (tmp_path / "kept" / "checkpoints").is_dir()


def test_a_folder_that_is_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "something").touch()
    command = [sys.executable, "-m", "headrace.cli", "chaos", "--keep", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert "is not empty" in done.stderr
