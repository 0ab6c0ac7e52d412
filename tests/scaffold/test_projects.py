"""New projects build, pass their own CI with the conformance kit, and run at a real gateway as plugins."""

import json
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.gateway.processes import GatewayProcess
from tests.scaffold.projects import PATHS, Project, ci_script, create, headrace
from tests.sdk.processes import connector
from tests.sdk.queries import Reader, Writer

from headrace.contract.languages import LANGUAGES

pytestmark = pytest.mark.timeout(900)  # The first builds fetch and compile gRPC.

Checked = Callable[[str, str], tuple[Project, str]]
PASSED = {"source": 41, "sink": 48}
"""How many checks of the kit a project passes at least."""
TURN = {"go": 3, "java": 2, "rust": 1, "typescript": 4}
"""When projects of a language come in runs of all tests: in Python always."""
LANGUAGE = [pytest.param(name, marks=[pytest.mark.in_turn(TURN[name], len(TURN))] if name in TURN else []) for name in LANGUAGES]


@pytest.mark.each_value
@pytest.mark.parametrize("kind", PASSED)
@pytest.mark.parametrize("language", LANGUAGE)
async def test_a_project_passes_its_ci_and_is_a_plugin_that_runs(
    checked: Checked, gateway: GatewayProcess, tmp_path: Path, kind: str, language: str
) -> None:
    project, printed = checked(kind, language)
    verdict = re.search(r"(\d+) passed, (\d+) failed", printed)
    assert verdict is not None, printed
    assert verdict[2] == "0", printed
    assert int(verdict[1]) >= PASSED[kind], printed
    path = tmp_path / PATHS[kind]
    if kind == "source":
        path.write_text("a\nb\nc\n")
    variables = {name: project.environ[name] for name in ("HEADRACE_CONNECTORS", "PATH", "PYTHONPATH")}
    listed = json.loads(headrace("connector", "list", "--json", **variables).stdout)["result"]["connectors"]
    assert project.name in {each["name"] for each in listed}
    parameters = (f"--{kind}", project.name, "--path", str(path))
    checked_by_headrace = headrace("connector", "check", project.name, *parameters, **variables)
    wanted = "6 bytes" if kind == "source" else "created by the first start"
    assert checked_by_headrace.stdout == f"{project.name} is valid: {path}, {wanted}\n", checked_by_headrace.stderr
    command = ("env", *(f"{name}={value}" for name, value in variables.items()), sys.executable, "-m", "headrace.cli")
    run = (*command, "connector", "run", project.name, *parameters)
    async with connector(gateway.address, tmp_path / "log", *run) as running:
        if kind == "source":
            reader = Reader(gateway.address, f"{project.name}/0")
            await reader.read(3)
            await reader.acknowledge()
            await reader.close()
            assert reader.values == [b"a", b"b", b"c"]
        else:
            writer = Writer(gateway.address, project.name)
            await writer.write(0, [b"a", b"b", b"c"])
            await writer.close()
            lines = [line for file in path.glob("visible/*/*.txt") for line in file.read_bytes().splitlines()]
            assert sorted(lines) == [b"a", b"b", b"c"]
        assert await running.end(signal.SIGTERM) == 0, running.log


def test_an_application_passes_its_ci(into: Path) -> None:
    project = create("app", "python", into, "word-count")
    project.shell(ci_script(project.folder))
    assert len(project.shell("python feed.py 3").splitlines()) == 3
