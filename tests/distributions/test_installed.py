"""What is installed has what `headrace demo` needs: nobody has to have the repository."""

import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tests.distributions.wheels import Wheel

LOADS = """
from click.testing import CliRunner
from headrace.cli import cli
from headrace.laboratory.demo.market import example_folder, load_feed

folder = example_folder()
print(folder)
assert load_feed(folder).Feed().orders(0).count
for program in "app.py", "columns.py":
    done = CliRunner().invoke(cli, ["run", str(folder / program), "--dry-run"])
    assert done.exit_code == 0, done.output
    assert len(done.output.splitlines()) == 6, done.output
"""


def test_the_wheel_has_the_application_of_the_demo(wheels: Mapping[str, Wheel], tmp_path: Path) -> None:
    for name in "headrace", "headrace-laboratory":
        with zipfile.ZipFile(wheels[name].path) as archive:
            archive.extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LOADS],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert Path(done.stdout.strip()) == tmp_path / "headrace" / "laboratory" / "demo" / "market_spread"
