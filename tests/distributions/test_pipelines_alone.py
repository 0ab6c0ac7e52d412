"""Applications and their tests need `headrace-pipelines` alone: neither Spark nor a gateway."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.distributions.programs import environ
from tests.distributions.wheels import ROOT, Wheel, install

TRIAL = """
import sys
from app import app
from headrace.pipelines import Message, Trial

trial = Trial(app)
trial.send(Message(b"to be or not to be", stream="lines/0"))
print(trial.values("counts")[-1].decode())
print([name for name in ("pyspark", "py4j", "headrace.engine") if name in sys.modules])
"""


def test_a_trial_runs_where_only_pipelines_are_installed(wheels: Mapping[str, Wheel], tmp_path: Path) -> None:
    packages = install(wheels["headrace-pipelines"], tmp_path)
    assert not list(packages.glob("pyspark*"))
    done = subprocess.run(
        [tmp_path / "bin" / "python", "-c", TRIAL],
        cwd=ROOT / "examples" / "word_count",
        env=environ(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["be 2", "[]"]
