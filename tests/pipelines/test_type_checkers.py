"""Two type checkers judge what test_typing says of flows: they infer types differently, and an author has one or the other."""

import os
import subprocess
import sys
from pathlib import Path

import playwright
import pytest

ROOT = Path(__file__).parents[2]
FILE = "tests/pipelines/test_typing.py"
NODE = Path(playwright.__file__).parent / "driver"
"""The folder of the Node.js that a development dependency has. pyright would look for another one, and download it."""
WRONG = """
from typing import assert_type
from headrace.pipelines import Flow, Pipeline

assert_type(Pipeline("p").source("a/*"), Flow[int])
"""


def checked(checker: str, file: str) -> subprocess.CompletedProcess[str]:
    """A checker's findings in a file, in the configuration of the project."""
    environment = {**os.environ, "PATH": f"{NODE}{os.pathsep}{os.environ['PATH']}", "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    command = [sys.executable, "-m", checker, file]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_the_types_of_flows_are_as_an_author_expects(checker: str) -> None:
    done = checked(checker, FILE)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_checker_reports_what_is_wrong(checker: str, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    done = checked(checker, str(wrong))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Flow[Message]" in done.stdout
