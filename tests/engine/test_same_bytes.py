"""Two attempts at one micro-batch write the same bytes: a warm worker and a cold one, in processes with hashes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SEEDS = "1", "2"
"""Which messages there are."""
WORKERS = {"warm": "1", "cold": "2"}
"""How the workers begin each micro-batch, and what their hashes of texts begin with."""


def test_what_is_written_follows_from_the_states_before_and_the_messages() -> None:
    running = {
        worker: subprocess.Popen(
            [sys.executable, "-m", "tests.engine.same_bytes", worker, *SEEDS],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hashes},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for worker, hashes in WORKERS.items()
    }
    written = {}
    for worker, process in running.items():
        out, error = process.communicate(timeout=280)
        assert process.returncode == 0, error[-4000:]
        lines = (json.loads(line.removeprefix("RESULT ")) for line in out.splitlines() if line.startswith("RESULT "))
        written[worker] = {tuple(where): found for *where, found in lines}
    apps = {app for _, app, *_ in written["warm"]}
    assert apps == {"texts", "instances", "timed", "columns", "programs"}
    assert {place.split()[0] for found in written["warm"].values() for place in found} == {"head", "changes", "segments"}
    # Place by place, so that what differs is named.
    assert written["warm"] == written["cold"]
