"""The alert rules of the documentation, as promtool evaluates them."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.absent import absent
from tests.docs.pages import ROOT


def firing(minute: int, alert: str, parts: Sequence[str]) -> dict[str, Any]:
    """That an alert fires for exactly these parts; for an empty one if it is of no part."""
    labels = [f"{{part={json.dumps(part)}}}" if part else "{}" for part in parts]
    return {
        "expr": f'max by (part) (ALERTS{{alertname="{alert}", alertstate="firing"}})',
        "eval_time": f"{minute}m",
        "exp_samples": [{"labels": one, "value": 1} for one in labels],
    }


def run(folder: Path, tests: Sequence[dict[str, Any]], every: str = "1m") -> None:
    """Has promtool evaluate the rules, each once in a time, which must fire as expected."""
    program = shutil.which("promtool")
    if program is None:
        absent("there is no promtool; on Debian, it is in the package prometheus")
    rules = str(ROOT / "docs" / "run" / "monitoring" / "alerts.yaml")
    file = folder / "tests.yaml"
    file.write_text(json.dumps({"rule_files": [rules], "evaluation_interval": every, "tests": list(tests)}))
    done = subprocess.run([program, "test", "rules", str(file)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5_000:]
