"""Which Python Spark's processes are, in an environment that others have left variables in."""

import os
import sys
from pathlib import Path

import pytest

from headrace.engine.spark import session

VARIABLES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
OWN = str(session._WORKER_PYTHON)


def chosen(monkeypatch: pytest.MonkeyPatch, **environ: str) -> list[str | None]:
    """The variables after a choice, in an environment of these variables."""
    for name in (*VARIABLES, "HEADRACE_WORKER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    session._choose_python({}, local=True)
    return [os.environ.get(name) for name in (*VARIABLES, "HEADRACE_WORKER_PYTHON")]


def test_without_a_choice_it_is_the_one_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(monkeypatch) == [OWN, OWN, sys.executable]


@pytest.mark.parametrize("worker_python", ["", "/elsewhere/bin/python"])
def test_a_process_of_another_installation_has_chosen_nothing(monkeypatch: pytest.MonkeyPatch, worker_python: str) -> None:
    other = "/elsewhere/lib/python3.11/site-packages/headrace/engine/spark/worker_python.sh"
    variables = {**dict.fromkeys(VARIABLES, other), "HEADRACE_WORKER_PYTHON": worker_python}
    assert chosen(monkeypatch, **variables) == [OWN, OWN, sys.executable]


def test_the_choice_of_the_environment_remains(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    python = str(tmp_path / "python")
    assert chosen(monkeypatch, PYSPARK_PYTHON=python)[0] == python
