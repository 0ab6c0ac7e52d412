"""The page for users of Kafka Connect: its files and commands are run as they stand there."""

import asyncio
import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest
from tests.gateway.processes import gateway_process
from tests.sdk.java.conftest import BRIDGE
from tests.sdk.processes import connector
from tests.sdk.queries import Reader

from headrace.cli import cli

pytestmark = pytest.mark.timeout(900)  # The first build fetches what it needs.

PAGE = (BRIDGE / "coming-from-kafka-connect.md").read_text()
FILES = dict(re.findall(r"```\w+\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


@pytest.fixture
def folder(file_plugin: Path, tmp_path: Path) -> Path:
    """A folder with the files of the page, the connector, and a file of lines."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "plugins").symlink_to(file_plugin)
    (tmp_path / "lines.txt").write_text("one\ntwo\nthree\n")
    return tmp_path


def _command(bridge: list[str], line: str) -> list[str]:
    words = shlex.split(line)
    assert words[0] == "headrace"
    return [*bridge, *words[1:]]


async def test_the_example_runs_as_it_stands_on_the_page(bridge: list[str], folder: Path) -> None:
    assert set(FILES) == {"connector.properties", "deploy.toml"}
    runs = [line for line in COMMANDS if line.startswith("headrace connector run ")]
    others = [line for line in COMMANDS if line not in runs]
    assert (len(runs), len(others)) == (1, 2)
    for line in others:
        done = await asyncio.to_thread(
            subprocess.run, _command(bridge, line), cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"
    there = ["env", f"--chdir={folder}", *_command(bridge, runs[0])]
    with gateway_process() as gateway:
        async with connector(gateway.address, folder / "log", *there):
            query = Reader(gateway.address, "lines/0")
            await query.read(3)
            await query.close()
    assert query.values == [b"one", b"two", b"three"]


def test_each_command_of_the_page_exists() -> None:
    lines = re.findall(r"`headrace ([^`]+)`", PAGE)
    assert len(lines) >= 10
    for line in lines:
        command: click.Command = cli
        for word in line.split():
            if not isinstance(command, click.Group):
                break  # What follows are its arguments.
            found = command.get_command(click.Context(command), word)
            assert found is not None, line
            command = found


def test_options_of_the_page_are_those_of_the_manifest() -> None:
    manifest = (BRIDGE / "connectors" / "kafka-connect" / "headrace-connector.toml").read_text()
    known = set(re.findall(r"^\[parameters\.(\w+)\]", manifest, re.MULTILINE))
    options = {name.replace("-", "_") for name in re.findall(r"--([a-z][a-z-]+)", PAGE)}
    assert options - known == {"snapshot", "json", "dry_run"}
