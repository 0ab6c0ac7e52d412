"""What an application may do while it is imported: a deployment that runs must get over all of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.deploy import CannotRun, load_deployment, read_graphs
from headrace.deploy import graph as graph_module

DEPLOYMENT = '[pipeline]\napp = "app.py"\n'
ANSWER = '{"ok": true, "result": {"pipeline": "p", "streams": ["a/*"], "sinks": [], "steps": []}, "error": null}'


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Reads the graph of an application whose import runs a shell script."""
    (tmp_path / "app.py").touch()
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT)
    deployment = load_deployment(tmp_path / "deploy.toml")

    def with_script(script: str, command: list[str] | None = None) -> graph_module.ApplicationGraph:
        monkeypatch.setattr(graph_module, "graph_command", lambda _: command or ["/bin/sh", "-c", script])
        return read_graphs(replace(deployment))["pipeline"]

    return with_script


@pytest.mark.parametrize(
    "script",
    [
        f"echo '{ANSWER}'; echo printed at the end",
        f"echo '{ANSWER}'; echo '[]'; echo '{{}}'",
        rf"printf '\377\376\n'; printf '\200' >&2; echo '{ANSWER}'; printf '\377'",
        f"sleep 600 & echo '{ANSWER}'",
        f"head -c 1000000 /dev/zero; echo; echo '{ANSWER}'",
        f"head -c 9000000 /dev/zero; head -c 9000000 /dev/zero >&2; echo; echo '{ANSWER}'; exec >&- 2>&-; sleep 0.2",
    ],
)
def test_a_graph_is_found_whatever_else_is_printed_or_left_behind(read, script: str) -> None:
    assert read(script).streams == ["a/*"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("head -c 9000000 /dev/zero >&2; echo; echo no module >&2; exit 1", "no module"),
        ("exit 0", "ended while it was imported"),
        ("echo '{\"ok\": true}'", "ended while it was imported"),
        ("echo nonsense; exit 1", "pipeline: exit code 1"),
        (r"printf 'no \377 module\n' >&2; exit 2", "no \ufffd module"),
        ('echo \'{"ok": false, "error": "app.py:3: invalid syntax"}\'; exit 2', "app.py:3: invalid syntax"),
    ],
)
def test_an_application_without_a_graph_is_named(read, script: str, said: str) -> None:
    with pytest.raises(CannotRun, match=said):
        read(script)


def test_an_import_that_does_not_end_is_cut_off_with_what_it_has_started(
    read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_module, "_WITHIN_S", 0.01)
    with pytest.raises(CannotRun, match=r"app\.py was not imported within 0\.01 s"):
        read("sleep 600 & wait")


def test_an_import_needs_no_temporary_file(read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    assert read(f"echo '{ANSWER}'").streams == ["a/*"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["/nowhere/python"], r"pipeline: Error: /nowhere/python cannot be started: No such file"),
        (["/bin/sh", "-c", "exit 0\0"], r"pipeline: the process that imports app\.py cannot be started: .*null byte"),
    ],
)
def test_an_import_that_cannot_be_started_is_named(read, command: list[str], said: str) -> None:
    with pytest.raises(CannotRun, match=said):
        read("exit 0", command)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("input()", r"app\.py cannot be imported: EOFError: EOF when reading a line \(.*app\.py, line 3\)"),
        ("__import__('subprocess').run(['cat'], check=True); raise KeyError('no answer')", "KeyError: 'no answer'"),
    ],
)
def test_an_application_that_reads_standard_input_finds_it_empty(tmp_path: Path, line: str, said: str) -> None:
    """Neither it nor a process that it starts waits for somebody to type."""
    (tmp_path / "app.py").write_text(f"import headrace.pipelines\n\n{line}\n")
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT)
    with pytest.raises(CannotRun, match=said):
        read_graphs(load_deployment(tmp_path / "deploy.toml"))
