"""A deployment with a connector in another language: its program takes the place of the supervised process."""

import re
import signal
from pathlib import Path

import psutil
import pytest
from tests.connectors.manifests import add
from tests.connectors.test_foreign_connectors import OF_SQUARES, SQUARES
from tests.deploy.test_processes import is_running, pids, running

from headrace.deploy import load_deployment, plan
from headrace.processes import lives

DEPLOYMENT = """
[gateway]
listen = "127.0.0.1:0"

[connectors.numbers]
connector = "squares"
source = "numbers"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The search path, and beside it a deployment."""
    folder = tmp_path / "connectors"
    manifest = add(folder, "squares", OF_SQUARES)
    (manifest.parent / "squares.py").write_text(SQUARES)
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT)
    return folder


async def test_its_program_is_supervised_and_stopped_like_any_other(folder: Path, tmp_path: Path) -> None:
    async with running(tmp_path, HEADRACE_CONNECTORS=str(folder)) as run:
        before = await run.until(is_running)
        program = psutil.Process(pids(before)["numbers"])
        assert program.cmdline()[-1] == str(folder / "squares/squares.py")
        program.send_signal(signal.SIGKILL)
        degraded = await run.until(lambda document: document["condition"] == "degraded")
        assert degraded["cause"] == "numbers: killed by SIGKILL"
        after = await run.until(is_running)
        assert pids(after)["numbers"] != pids(before)["numbers"]
        run.process.terminate()
        last = await run.until(lambda document: "command" in document)
        assert (last["ok"], last["summary"]) == (True, "stopped")
        assert await run.end() == 0


async def test_its_program_does_not_outlive_a_supervisor_that_is_killed(folder: Path, tmp_path: Path) -> None:
    async with running(tmp_path, HEADRACE_CONNECTORS=str(folder)) as first:
        before = await first.until(is_running)
        first.process.kill()
        await first.process.wait()
    # Started again at once, it waits for the program of the first: no two of them ever run.
    async with running(tmp_path, HEADRACE_CONNECTORS=str(folder)) as second:
        await second.until(is_running)
        assert not [pid for pid in pids(before).values() if lives(pid)]
        second.process.terminate()
        assert await second.end() == 0


async def test_a_program_that_is_not_there_ends_the_deployment(folder: Path, tmp_path: Path) -> None:
    manifest = folder / "squares/headrace-connector.toml"
    lines = manifest.read_text().splitlines()
    manifest.write_text("\n".join('command = ["./absent"]' if line.startswith("command") else line for line in lines))
    async with running(tmp_path, HEADRACE_CONNECTORS=str(folder)) as run:
        last = await run.until(lambda document: "command" in document)
        assert last["error"].startswith("numbers ended with exit code 3: connector squares of ")
        assert f"there is no program {manifest.parent}/absent" in last["error"]
        assert await run.end() == 3


def test_a_reload_restarts_it_only_if_its_manifest_or_its_table_has_changed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CONNECTORS", str(folder))

    def settings() -> object:
        (connector,) = plan(load_deployment(tmp_path / "deploy.toml"), {}).others
        return connector.settings

    before = settings()
    assert settings() == before
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT.replace('source = "numbers"', 'source = "others"'))
    assert settings() != before
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT)
    assert settings() == before
    manifest = folder / "squares/headrace-connector.toml"
    manifest.write_text(re.sub(r'version = "[^"]*"', 'version = "9.9.9"', manifest.read_text()))
    assert settings() != before
