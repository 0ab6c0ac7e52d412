"""Spark starts a Python process for each step of a query, and each must be there soon."""

import subprocess
import sys

import pytest

IMPORTS = "import sys, {module}; print(*(name for name in sys.argv[1:] if name in sys.modules))"


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        ("headrace.engine.spark._format", ["grpc", "headrace.protocol", "headrace.pipelines", "headrace.engine.spark._session"]),
        (
            "headrace.engine.source._reader",
            ["headrace.pipelines", "headrace.engine.spark._session", "headrace.engine.sink._writer"],
        ),
        (
            "headrace.engine.sink._writer",
            ["headrace.pipelines", "headrace.engine.spark._session", "headrace.engine.source._reader"],
        ),
    ],
)
def test_a_process_imports_only_what_it_does(module: str, unneeded: list[str]) -> None:
    command = [sys.executable, "-c", IMPORTS.format(module=module), *unneeded]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.split() == []


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from headrace.engine import nothing  # noqa: F401
