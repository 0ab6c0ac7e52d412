"""A short soak of all bundled connectors, as a program of its own with brokers of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.brokers import BROKERS
from tests.absent import absent

from headrace.connectors import CONNECTORS

SEED = 7


@pytest.mark.timeout(1800)
@pytest.mark.in_turn(5, 6)
def test_every_message_is_accounted_for_whatever_restarts_or_is_cut() -> None:
    if missing := [kind.name for kind in BROKERS.values() if not kind.is_installed()]:
        absent(f"{', '.join(missing)} are not installed; run: make brokers")
    command = [sys.executable, "-m", "tests.broker_crashes.soak", "--minutes", "0.3", "--seed", str(SEED), "--json"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-20_000:] + done.stdout
    outcome = json.loads(done.stdout)
    assert outcome["faults"]
    for account in outcome["accounts"]:
        assert account["findings"] == [], account["pair"]
        assert account["published"] >= 60, account["pair"]
    pairs = {name for account in outcome["accounts"] for name in account["pair"].split(" to ")}
    assert pairs == {connector.name for connector in CONNECTORS}
