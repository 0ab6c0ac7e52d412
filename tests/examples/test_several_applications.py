"""Two applications and a Spark program in one deployment, on real Spark, one of them killed meanwhile."""

import json
import os
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.test_processes import is_running, pids, running

EXAMPLE = Path(__file__).parents[2] / "examples" / "several_applications"
WITHIN_S = 420.0
"""Three times Spark, with their first micro-batches, on a machine with other work to do."""


def written(folder: Path, name: str) -> Counter[str]:
    return Counter(line for path in sorted((folder / "out" / name).glob(f"{name}-*")) for line in path.read_text().splitlines())


@pytest.mark.in_turn(5, 6)
@pytest.mark.timeout(1200)
async def test_two_applications_and_a_spark_program_run_side_by_side(tmp_path: Path) -> None:
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("in", "out", "checkpoints", "deploy.run", "__pycache__"))
    configured = folder / "gateway.toml"
    configured.write_text(configured.read_text().replace("127.0.0.1:7433", "127.0.0.1:0"))
    (folder / "in").mkdir()
    orders = folder / "in" / "orders.txt"
    orders.write_text("ann,30\nbob,250\n")

    def acknowledged(count: int) -> Any:
        return lambda document: is_running(document) and document["acknowledged"] == count

    async with running(folder) as run:
        before = await run.until(acknowledged(2), WITHIN_S)
        assert {process["name"]: process["kind"] for process in before["processes"]} == {
            "gateway": "gateway",
            "orders": "source",
            "customers": "pipeline",
            "large": "pipeline",
            "amounts": "query",
            "customers-out": "sink",
            "large-out": "sink",
            "amounts-out": "sink",
        }
        os.kill(pids(before)["amounts"], signal.SIGKILL)
        with orders.open("a") as file:
            file.write("ann,120\n")
        after = await run.until(acknowledged(3), WITHIN_S)
        assert {process["name"] for process in after["processes"] if process["restarts"]} == {"amounts"}
        run.process.terminate()
        last = await run.until(lambda document: "command" in document)
        assert (last["ok"], last["summary"]) == (True, "stopped")
        assert await run.end() == 0
    assert written(folder, "customers") == Counter(["ann 1", "bob 1", "ann 2"])
    assert written(folder, "large") == Counter(["bob,250", "ann,120"])
    amounts = [json.loads(line) for line in written(folder, "amounts").elements()]
    assert sorted((one["customer"], one["amount"]) for one in amounts) == [("ann", 30.0), ("ann", 120.0), ("bob", 250.0)]
