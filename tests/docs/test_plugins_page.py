"""The plugins on their page work as they are written."""

import asyncio
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

from scripts import generate_connector_pages
from tests.docs.pages import ROOT, Block, blocks, codes, section, table
from tests.gateway.wire import Engine, values_of
from tests.gateway.wire import serve as gateway

from headrace.connectors import RESERVED
from headrace.connectors.manifests import OF_THE_GATEWAY, Manifest, ParameterTable

PAGE = "docs/write/plugins.md"


def headrace(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headrace.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **environ},
    )


def write(block: Block, folder: Path) -> Path:
    """Writes a block to the file that its first line names."""
    path = folder / block.text.splitlines()[0].removeprefix("# ")
    path.parent.mkdir(mode=0o755, exist_ok=True)
    path.write_text(block.text)
    path.chmod(0o644)
    return path


def test_the_python_package_is_a_plugin(tmp_path: Path) -> None:
    written = {}
    for block in (*blocks(PAGE, "toml")[:1], *blocks(PAGE, "python")[:2]):
        written[write(block, tmp_path).name] = block.text
    project = tomllib.loads(written["pyproject.toml"])["project"]
    metadata = tmp_path / "acme_counter-1.2.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    ((group, entries),) = project["entry-points"].items()
    (metadata / "entry_points.txt").write_text(f"[{group}]\n" + "".join(f"{name}={value}\n" for name, value in entries.items()))
    for line in blocks(PAGE, "bash")[0].text.splitlines()[1:]:
        program, *words = line.split()
        shown = headrace(*words, "--help", PYTHONPATH=str(tmp_path))
        assert (program, shown.returncode) == ("headrace", 0), shown.stderr
    checked = headrace("connector", "check", "counter", "--source", "numbers", "--json", PYTHONPATH=str(tmp_path))
    assert checked.stderr == ""
    assert json.loads(checked.stdout)["result"] == {"connector": "counter", "finding": "100 numbers"}


async def test_the_folder_with_a_manifest_is_a_plugin(tmp_path: Path) -> None:
    for block in (blocks(PAGE, "toml")[1], blocks(PAGE, "python")[2]):
        write(block, tmp_path)
    variables = {"HEADRACE_CONNECTORS": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    commands = [line.split()[1:] for line in blocks(PAGE, "bash")[1].text.splitlines()[1:]]
    assert [words[1] for words in commands] == ["describe", "check", "run"]
    described, checked = [headrace(*words, **variables) for words in commands[:2]]
    assert "from: " in described.stdout
    assert (checked.stdout, checked.stderr) == ("squares is valid: 100 squares\n", "")
    async with gateway() as (_, address):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "headrace.cli", *commands[2], "--gateway", address), env={**os.environ, **variables}
        )
        try:
            engine = Engine(address, streams="squares/*")
            await engine.attach()
            plan = await engine.plan_until("squares/0", 1000)
            assert values_of(await engine.fetch("squares/0", None, plan.end))[-1] == b"1000000"
            await engine.plan({"squares/0": plan.end}, wait_ms=0)
            assert await asyncio.wait_for(process.wait(), 60) == 0
            await engine.close()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def test_the_tables_are_those_of_the_model() -> None:
    assert not generate_connector_pages.stale(ROOT / PAGE), "run python -m scripts.generate_connector_pages"
    keys = {
        heading: [codes(row[0])[0] for row in table(PAGE, heading)] for heading in ("The manifest", "Parameters of a manifest")
    }
    assert keys == {
        "The manifest": list(Manifest.model_fields),
        "Parameters of a manifest": list(ParameterTable.model_fields),
    }


def test_the_variables_of_a_program_are_on_the_page() -> None:
    named = [code for row in table(PAGE, "What reaches the program") for code in codes(row[0])]
    others = {"HEADRACE_PARAMETERS", "HEADRACE_SECRET_NAME", "HEADRACE_INSTANCE", "HEADRACE_LOG_FORMAT", "HEADRACE_VERBOSE"}
    assert set(named) == {*OF_THE_GATEWAY, *others}


def test_reserved_names_are_on_the_page() -> None:
    assert set(RESERVED) <= set(codes(section(PAGE, "A Python package")))
