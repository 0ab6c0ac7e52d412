"""`headrace completion`: shells complete commands and options."""

import os
import pty
import select
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class
from click.testing import CliRunner

from headrace.cli import cli
from headrace.connectors_cli import program as connectors
from headrace.gateway_cli import program as gateway
from headrace.terminal.program import SHELLS

DEADLINE_S = 150.0
PROGRAMS = Path(sys.executable).parent


class Terminal:
    """A shell at a terminal, which a person types into."""

    def __init__(self, shell: int) -> None:
        self._shell = shell
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self._shell, text.encode())

    def wait_for(self, text: str) -> None:
        """Waits until it shows a text, and forgets what it showed up to there."""
        deadline = time.monotonic() + DEADLINE_S
        while text not in self.shown:
            left = deadline - time.monotonic()
            assert left > 0, f"never showed {text!r}: {self.shown!r}"
            if select.select([self._shell], [], [], left)[0]:
                self.shown += os.read(self._shell, 4096).decode(errors="replace").replace("\r", "")
        self.shown = self.shown.partition(text)[2]


@contextmanager
def bash(home: Path) -> Iterator[Terminal]:
    """Bash at a terminal, with the programs of this environment in its PATH."""
    program = shutil.which("bash")
    assert program is not None
    environ = {"PATH": f"{PROGRAMS}:/usr/bin:/bin", "HOME": str(home), "TERM": "dumb", "PS1": "READY> "}
    process, shell = pty.fork()
    if process == 0:
        os.execve(program, ["bash", "--norc", "--noprofile", "-i"], environ)
    try:
        terminal = Terminal(shell)
        terminal.wait_for("READY> ")
        yield terminal
    finally:
        # A shell whose terminal is closed ends.
        os.close(shell)
        os.waitpid(process, 0)


def completed(*words: str, incomplete: str = "") -> list[str]:
    """What click suggests after some words."""
    return [item.value for item in ShellComplete(cli, {}, "headrace", "_X").get_completions(list(words), incomplete)]


def test_bash_completes_a_command_an_option_and_a_choice_at_tab(tmp_path: Path) -> None:
    with bash(tmp_path) as terminal:
        terminal.type('eval "$(headrace completion bash)" && echo sour""ced\n')
        terminal.wait_for("sourced\n")
        terminal.wait_for("READY> ")
        for typed, shown in (("gat", "gateway "), ("status --wa", "status --watch "), ("completion f", "completion fish ")):
            terminal.type(f"headrace {typed}\t")
            terminal.wait_for(f"headrace {shown}")
            terminal.type("\x15\n")
            terminal.wait_for("READY> ")


def test_bash_completes_the_programs_of_a_role_as_well(tmp_path: Path) -> None:
    with bash(tmp_path) as terminal:
        terminal.type('eval "$(headrace-gateway completion bash)" && echo sour""ced\n')
        terminal.wait_for("sourced\n")
        terminal.wait_for("READY> ")
        terminal.type("headrace-gateway forg\t")
        terminal.wait_for("headrace-gateway forget ")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_each_shell_asks_the_program_by_clicks_variable(shell: str) -> None:
    result = CliRunner().invoke(cli, ["completion", shell], prog_name="headrace")
    assert result.exit_code == 0, result.output
    assert f"_HEADRACE_COMPLETE={shell}_complete" in result.output


@pytest.mark.parametrize(("shell", "line"), [("zsh", "plain\ngateway"), ("fish", "plain,gateway")])
def test_the_answer_to_each_shell_names_what_fits(shell: str, line: str) -> None:
    environ = {
        "_HEADRACE_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "headrace gat",
        "COMP_CWORD": "gat" if shell == "fish" else "1",
    }
    result = CliRunner().invoke(cli, [], prog_name="headrace", env=environ)
    assert result.exit_code == 0, result.output
    assert result.output.startswith(line)
    found = get_completion_class(shell)
    assert found is not None
    assert found(cli, {}, "headrace", "_X").format_completion(CompletionItem("gateway")).startswith(line)


def test_commands_options_and_choices_are_suggested() -> None:
    assert completed(incomplete="gat") == ["gateway"]
    assert "--json" in completed("status", incomplete="--")
    assert completed("completion") == list(SHELLS)


@pytest.mark.parametrize(("program", "name"), [(gateway, "headrace-gateway"), (connectors, "headrace-connectors")])
def test_the_programs_of_a_role_print_their_own_script(name: str, program: object) -> None:
    result = CliRunner().invoke(program, ["completion", "bash"], prog_name=name)  # type: ignore[arg-type]
    assert result.exit_code == 0, result.output
    assert f"{name}\n" in result.output
    assert f"_{name.replace('-', '_').upper()}_COMPLETE=bash_complete" in result.output
    shown = CliRunner().invoke(program, ["completion", "--help"], prog_name=name).output  # type: ignore[arg-type]
    joined = " ".join(shown.replace("\\\n", " ").split())
    assert f"{name} completion fish > ~/.config/fish/completions/{name}.fish" in joined


def test_an_unknown_shell_is_refused_with_those_that_there_are() -> None:
    result = CliRunner().invoke(cli, ["completion", "tcsh"])
    assert result.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in result.output
