"""The plugins on their page work as they are written."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.docs.pages import blocks, codes, section

from headrace.connectors._connector import RESERVED

PAGE = "docs/plugins.md"


def headrace(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headrace.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environ},
    )


def test_the_python_package_is_a_plugin(tmp_path: Path) -> None:
    written = {}
    for block in (*blocks(PAGE, "toml")[:1], *blocks(PAGE, "python")[:2]):
        path = tmp_path / block.text.splitlines()[0].removeprefix("# ")
        path.parent.mkdir(exist_ok=True)
        path.write_text(block.text)
        written[path.name] = block.text
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
    assert json.loads(checked.stdout)["result"] == {"connector": "counter", "found": "100 numbers"}


def test_reserved_names_are_on_the_page() -> None:
    assert set(RESERVED) <= set(codes(section(PAGE, "A Python package")))
