"""`headrace demo market-spread` as its users run it, from anywhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli import cli

_WITHIN_S = 400.0


@pytest.mark.in_turn(3)
@pytest.mark.timeout(_WITHIN_S)
def test_the_rejected_orders_are_the_right_ones(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headrace.cli", "demo", "market-spread", "--messages", "200000", "--json"]
    # What configures a user's own gateway is not for the demo.
    environ = {**os.environ, "HEADRACE_GATEWAY": "127.0.0.1:1", "HEADRACE_TOKEN": "x"}
    done = subprocess.run(
        [*command, "--keep", str(tmp_path / "kept")],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=_WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert (document["command"], document["ok"], document["error"]) == ("demo market-spread", True, None)
    result = document["result"]
    assert result["messages"] == result["acknowledged"] == 400_000
    assert result["checks"] == {"equal": True, "rejected": 3, "missing": 0, "wrong": 0}
    assert sorted(order["order_id"] for order in result["rejected"]) == ["073763", "148105", "175135"]
    assert 0 < result["stream_s"] < result["elapsed_s"]


def test_options_follow_its_name() -> None:
    done = CliRunner().invoke(cli, ["demo", "--json", "market-spread"])
    assert done.exit_code == 2
    assert "put the options of market-spread after its name" in done.output
