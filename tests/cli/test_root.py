import importlib.util
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.docs.pages import ROOT

from headrace.cli import cli
from headrace.terminal import EXIT_ENVIRONMENT, Failure, bytes_text, duration_text

HEAVY = ("grpc", "pydantic", "rich", "pyspark", "numpy", "pandas")


def commands() -> list[str]:
    return cli.list_commands(click.Context(cli)) if isinstance(cli, click.Group) else []


def test_help_lists_the_commands_and_the_exit_codes() -> None:
    result = CliRunner().invoke(cli, ["--help"])

    assert result.exit_code == 0
    assert "Exit codes: 0 success" in result.output
    titles = [line for line in result.output.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Options:", "Run:", "Connectors:", "Operate:", "Develop:", "Laboratory:"]
    for name in commands():
        assert result.output.count(f"\n  {name} ") == 1


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys\nfrom headrace.cli import cli\n"
        "cli.main(['--help'], standalone_mode=False)\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)

    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "runs_on"),
    [
        (["connector", "run"], True),
        (["gateway"], True),
        (["run", "deploy.toml"], True),
        (["run", "app.py"], False),
        (["status"], False),
    ],
)
def test_sighup_ends_nothing_that_handles_it_later(words: list[str], runs_on: bool) -> None:
    program = (
        "import os, signal, sys\nfrom headrace.cli import root\n"
        # A command that an earlier test ran in this process may have had it ignored, which a child inherits.
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "root.run_program = lambda *_: (os.kill(os.getpid(), signal.SIGHUP), print('runs on'))\n"
        "root.main()"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=300, check=False)

    assert (done.returncode, done.stdout) == ((0, "runs on\n") if runs_on else (-signal.SIGHUP, ""))


@pytest.mark.parametrize("name", commands())
def test_every_command_has_help_with_an_example(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "--help"])

    assert result.exit_code == 0, result.output
    assert f"headrace {name}" in result.output


def test_an_unknown_command_is_a_validation_error() -> None:
    result = CliRunner().invoke(cli, ["statsu"])

    assert result.exit_code == 2
    assert "No such command 'statsu'. (Did you mean one of: 'restart', 'state', 'status'?)" in result.output


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("replay", "'dead-letters replay'"),
        ("backup", "'checkpoint backup'"),
        ("reload", "'gateway reload'"),
        ("rewind", "'positions rewind'"),
    ],
)
def test_a_command_of_a_group_is_found_without_the_group(name: str, meant: str) -> None:
    result = CliRunner().invoke(cli, [name, "--json"])

    assert result.exit_code == 2
    assert f"No such command '{name}'. Did you mean {meant}?" in result.output


def groups() -> list[str]:
    """Every group of commands, as it is typed after `headrace`; empty for the whole."""

    def walk(line: str, command: click.Command) -> Iterator[str]:
        if isinstance(command, click.Group):
            yield line
            context = click.Context(command, info_name=line)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                yield from walk(f"{line} {name}".strip(), inner)

    return list(walk("", cli))


@pytest.mark.parametrize("line", groups())
def test_a_name_with_one_letter_too_many_is_answered_with_the_right_one(line: str) -> None:
    found: click.Command | None = cli
    for word in line.split():
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), word)
    assert isinstance(found, click.Group)
    name = max(found.list_commands(click.Context(found)), key=len)

    result = CliRunner().invoke(cli, [*line.split(), f"{name}x"])

    assert result.exit_code == 2
    assert repr(name) in result.output.partition("Did you mean")[2], result.output


@pytest.mark.parametrize("line", groups())
def test_the_list_of_commands_has_whole_sentences(line: str) -> None:
    lines = CliRunner().invoke(cli, [*line.split(), "--help"], env={"COLUMNS": "80"}).output.splitlines()

    assert [text for text in lines if text.endswith("...") and not text.lstrip().startswith(("Usage: ", "headrace "))] == []


def test_the_program_exits_with_the_commands_code(tmp_path: Path) -> None:
    call = [sys.executable, "-m", "headrace.cli", "gateway", "--check", "--listen", "nowhere"]
    result = subprocess.run(call, capture_output=True, text=True, timeout=300, check=False)

    assert result.returncode == 2
    assert result.stderr.startswith("--listen: 'nowhere' is not host:port")


def test_durations_are_shown_as_the_console_shows_them() -> None:
    cases = json.loads((ROOT / "gateway/console/test/durations.json").read_text())
    assert [duration_text(case["ms"]) for case in cases] == [case["text"] for case in cases]


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1536, "1.5 KiB"), (2**20, "1.0 MiB"), (2**42, "4.0 TiB")])
def test_sizes(count: int, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("extra", "names"), [("laboratory", ["bench", "chaos", "demo", "soak"]), ("conformance", ["conformance"])]
)
def test_a_command_of_an_extra_says_how_to_install_it(extra: str, names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == f"headrace.{extra}" else find(name))

    assert set(names).isdisjoint(commands())
    result = CliRunner().invoke(cli, [names[-1]], standalone_mode=False)
    assert isinstance(result.exception, Failure)
    assert result.exception.exit_code == EXIT_ENVIRONMENT
    assert f"pip install 'headrace[{extra}]'" in str(result.exception)
