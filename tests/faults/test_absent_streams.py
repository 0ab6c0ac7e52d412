"""Runs that end when they have caught up, while no connector has the streams that they name."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.faults.rig import Rig
from tests.faults.sources import Numbers, number_sequence

pytestmark = pytest.mark.timeout(600)
SOON = {"streamTimeout": "2s"}
PROGRAM = """
from headrace.pipelines import Pipeline

app = Pipeline("copies")
app.source("numbers/*,letters/0").map(lambda message: message.value).sink("copies")
"""


def test_a_run_with_available_now_waits_for_its_streams_and_fails_where_no_connector_comes(rig: Callable[[str], Rig]) -> None:
    world = rig("")
    source = Numbers(world.source_folder("numbers"))
    source.offer("0", 100)
    patient = world.query("now", "record", "numbers/*", available_now=True)
    hasty = world.query("now", "record", "numbers/*", SOON, available_now=True)
    world.gateway.start()
    world.run(hasty)
    failure = world.failure(hasty)
    assert f"StreamAway: no connector at the gateway {world.gateway.address} provides a stream numbers/*;" in failure
    assert "onStreamAway" in failure
    assert "the option streamTimeout sets how long to wait" in failure

    world.run(patient)
    world.wait_until("the run waits", lambda: (known := world.gateway.pipeline("now")) is not None and known.attached)
    connector = world.connector("numbers")
    connector.start()
    assert world.wait_for("the run ends", patient.outcome) == {"state": "stopped"}
    assert [sequence for _, sequence, _ in patient.rows()] == [number_sequence(n) for n in range(1, 101)]

    # Another gateway, which knows of the stream only what the checkpoint says.
    connector.kill()
    world.gateway.kill()
    world.gateway.start()
    source.offer("0", 200)
    world.run(hasty)
    assert "provides a stream numbers/*" in world.failure(hasty)


def test_headrace_run_fails_where_no_connector_has_the_streams_of_a_bounded_run(
    rig: Callable[[str], Rig], tmp_path: Path
) -> None:
    world = rig("")
    world.gateway.start()
    program = tmp_path / "copies.py"
    program.write_text(PROGRAM)
    command = [
        *(sys.executable, "-m", "headrace.cli", "run", str(program), "--checkpoint", str(tmp_path / "checkpoint")),
        *(
            "--available-now",
            "--json",
            "--option",
            "streamTimeout=2s",
            "--gateway",
            world.gateway.address,
            "--master",
            "local[1]",
        ),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    last = json.loads(ended.stdout.splitlines()[-1])
    assert (last["command"], last["ok"]) == ("run", False)
    assert "provides a stream numbers/*, letters/0; " in last["error"]
