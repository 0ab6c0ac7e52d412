"""The commands on the page about backups are run, in their order."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.pages import blocks
from tests.engine.test_backups import STEPS, Query

PAGE = "docs/run/backup.md"
APP = """
from headrace.pipelines import Pipeline

app = Pipeline("orders")
app.source("orders/*").sink("out")
"""


def shell(folder: Path, text: str) -> "subprocess.CompletedProcess[str]":
    """Runs a block of the page, with the program of this environment. The path of a temporary folder stays on one line."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {
        key: value for key, value in os.environ.items() if key not in ("SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR")
    }
    return subprocess.run(
        ["bash", "-euc", text],
        cwd=folder,
        env={**environment, "PATH": path, "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "backups").mkdir()
    query = Query(tmp_path / "checkpoints" / "orders")
    for step in STEPS:
        query.run(step)
    query.commits.close()
    return tmp_path


def test_the_commands_copy_examine_and_restore_a_checkpoint(folder: Path) -> None:
    first, scheduled = blocks(PAGE, "bash")
    done = shell(folder, first.text)
    assert done.returncode == 0, done.stderr
    batch = len(STEPS) - 1
    assert f"micro-batch {batch} of file:{folder}/checkpoints/orders is copied to backups/monday" in done.stdout
    assert f"the backup backups/monday is whole: micro-batch {batch}," in done.stdout
    assert f"checkpoints/restored continues after micro-batch {batch} of file:{folder}/checkpoints/orders" in done.stdout

    done = shell(folder, scheduled.text)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["command"], answer["ok"], answer["result"]["batch"]) == ("checkpoint backup", True, batch)
    assert {path.name for path in Path(folder, answer["result"]["backup"]).iterdir()} == {"files", "headrace-backup.json"}


def test_a_torn_backup_is_named_with_exit_code_1_by_each_command(folder: Path) -> None:
    shell(folder, blocks(PAGE, "bash")[0].text)
    victim = folder / "backups/monday/files/metadata"
    victim.write_text("{}")

    done = shell(folder, "headrace checkpoint verify backups/monday --json")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["ok"]) == (1, False)
    assert answer["result"]["wrong"] == ["metadata has 2 bytes instead of 15"]
    assert "  metadata has 2 bytes" in shell(folder, "headrace checkpoint verify backups/monday || true").stdout

    done = shell(folder, "headrace checkpoint restore backups/monday --into checkpoints/other")
    assert (done.returncode, done.stdout) == (1, "")
    assert "is not whole: metadata is not what was copied" in done.stderr
    for words, said in (
        ("backup app.py --into backups/monday", "exists; name a new folder"),
        ("backup nowhere --into backups/nowhere", "no committed micro-batch"),
        ("restore nowhere --into checkpoints/nowhere", "is not a backup"),
        ("verify nowhere", "cannot be used"),
        ("backup checkpoints/orders --into app.py/backup", "Not a directory"),
    ):
        done = shell(folder, f"headrace checkpoint {words}")
        assert done.returncode == 1, words
        assert said in done.stdout + done.stderr, (words, done)
        assert "Traceback" not in done.stderr
