"""A whole deployment on Spark: files in, words counted, files out, one connector killed meanwhile."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from tests.deploy.test_processes import DEPLOYMENT, is_running, pids, running
from tests.docs.pages import blocks

PIPELINE = """
format = "lines"

[pipeline]
app = "app.py"
master = "local[2]"
parallelism = 1
conf = { "spark.ui.enabled" = false }
"""

SPARK_STARTS_WITHIN_S = 180.0
"""With its first micro-batch, on a machine with other work to do."""


def written(folder: Path) -> list[str]:
    return [line for path in sorted((folder / "out").glob("counts-*")) for line in path.read_text().splitlines()]


@pytest.mark.timeout(600)
async def test_words_are_counted_once_though_a_connector_is_killed(tmp_path: Path) -> None:
    program = blocks("README.md", "python")[-1].text
    assert "Pipeline(" in program
    (tmp_path / "app.py").write_text(program)
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT + PIPELINE)
    (tmp_path / "in").mkdir()
    lines = tmp_path / "in" / "lines.txt"
    lines.write_text("one two one\n")
    async with running(tmp_path) as run:
        before = await run.until(lambda document: is_running(document) and document["acknowledged"] == 1, SPARK_STARTS_WITHIN_S)
        os.kill(pids(before)["lines"], signal.SIGKILL)
        with lines.open("a") as file:
            file.write("two one\n")
        after = await run.until(lambda document: is_running(document) and document["acknowledged"] == 2, SPARK_STARTS_WITHIN_S)
        assert {process["name"]: process["restarts"] for process in after["processes"]} == {
            "gateway": 0,
            "lines": 1,
            "pipeline": 0,
            "counts": 0,
        }
        run.process.terminate()
        assert await run.end() == 0
    assert Counter(written(tmp_path)) == Counter(["one 1", "two 1", "one 2", "two 2", "one 3"])
