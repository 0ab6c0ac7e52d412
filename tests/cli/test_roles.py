"""The programs of the other distributions, such as `headrace-gateway`, are commands of `headrace` by another name."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from headrace import conformance, connectors_cli, gateway_cli
from headrace.cli import cli

PROGRAMS = {
    "headrace-gateway": gateway_cli.program,
    "headrace-connectors": connectors_cli.program,
    "headrace-conformance": conformance.program,
}
OF_HEADRACE = {
    "headrace-conformance completion": "headrace completion",
    "headrace-conformance.fish": "headrace.fish",
    "headrace-conformance": "headrace conformance",
    "headrace-connectors completion": "headrace completion",
    "headrace-connectors.fish": "headrace.fish",
    "headrace-gateway completion": "headrace completion",
    "headrace-gateway.fish": "headrace.fish",
    "headrace-connectors dead-letters": "headrace dead-letters",
    "headrace-connectors": "headrace connector",
    "headrace-gateway status": "headrace status",
    "headrace-gateway dead-letters": "headrace dead-letters",
    "headrace-gateway drain": "headrace drain",
    "headrace-gateway events": "headrace events",
    "headrace-gateway timeline": "headrace timeline",
    "headrace-gateway top": "headrace top",
    "headrace-gateway why": "headrace why",
    "headrace-gateway forget": "headrace forget",
    "headrace-gateway pause": "headrace pause",
    "headrace-gateway peek": "headrace peek",
    "headrace-gateway resume": "headrace resume",
    "headrace-gateway": "headrace gateway",
}


def command_lines() -> Iterator[str]:
    """Every command of both programs: `headrace-connectors run tcp`."""

    def walk(line: str, command: click.Command) -> Iterator[str]:
        yield line
        if isinstance(command, click.Group):
            context = click.Context(command, info_name=line)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                yield from walk(f"{line} {name}", inner)

    for name, program in PROGRAMS.items():
        yield from walk(name, program)


def on_one_line(text: str) -> str:
    return " ".join(text.replace("\\\n", "").split())


def as_of_headrace(text: str) -> str:
    """A text of a program, in the words of `headrace`, without where its lines break."""
    for program, of_headrace in OF_HEADRACE.items():
        text = text.replace(program, of_headrace)
    return " ".join(text.split())


@pytest.mark.parametrize("line", list(command_lines()))
def test_a_programs_command_has_the_help_and_the_options_of_the_command_of_headrace(line: str) -> None:
    program, *words = line.split()
    here = CliRunner().invoke(PROGRAMS[program], [*words, "--help"], prog_name=program)
    there = CliRunner().invoke(cli, [*as_of_headrace(line).split()[1:], "--help"], prog_name="headrace")

    assert (here.exit_code, there.exit_code) == (0, 0)
    assert line in on_one_line(here.output).split("Example", 1)[1], "an example, as it is typed here"
    if words and words != ["dead-letters"]:  # headrace has the commands of both programs in one group
        # Names of programs differ in length, and so do their lines.
        assert as_of_headrace(on_one_line(here.output)) == as_of_headrace(on_one_line(there.output))
    elif not words:
        options = {option for parameter in PROGRAMS[program].params for option in parameter.opts}
        assert all(option in there.output for option in options - {"--version"})


def test_a_program_says_its_version() -> None:
    for name, program in PROGRAMS.items():
        assert CliRunner().invoke(program, ["--version"]).output.startswith(f"{name} 0."), name


@pytest.mark.parametrize(
    ("module", "words", "said"),
    [
        ("gateway_cli", ["--listen", "nowhere", "--check"], "--listen: 'nowhere' is not host:port"),
        ("connectors_cli", ["describe", "flie"], "there is no connector flie; did you mean file?"),
        ("connectors_cli", ["describe", "xyz"], "there is no connector xyz; headrace-connectors list shows all connectors"),
        ("connectors_cli", ["run", "--verbose", "tcp"], "options come after the connector: headrace-connectors run tcp ..."),
    ],
)
def test_a_programs_errors_name_its_own_commands_and_it_exits_with_their_code(module: str, words: list[str], said: str) -> None:
    call = [sys.executable, "-m", f"headrace.{module}", *words]
    result = subprocess.run(call, capture_output=True, text=True, timeout=300, check=False)

    assert result.returncode == 2
    assert said in result.stderr


def test_an_error_of_a_configuration_names_the_command_that_is_installed(tmp_path: Path) -> None:
    file = tmp_path / "xyz.toml"
    file.write_text('connector = "xyz"\n')
    said = {
        name: CliRunner().invoke(command, [*words, "check", "-c", str(file)]).stderr
        for name, command, words in (("program", connectors_cli.program, []), ("headrace", cli, ["connector"]))
    }

    assert "; headrace-connectors list shows all connectors" in said["program"]
    assert "; headrace connector list shows all connectors" in said["headrace"]


def test_commands_are_mounted_and_not_copied() -> None:
    context = click.Context(cli)
    assert isinstance(cli, click.Group)
    of_gateway = ("drain", "events", "forget", "pause", "peek", "resume", "status", "timeline", "top", "why")
    names = ("conformance", "connector", "gateway", *of_gateway)
    mounted = {name: cli.get_command(context, name) for name in names}

    assert mounted == {
        "conformance": conformance.conformance,
        "connector": connectors_cli.connector,
        "drain": gateway_cli.drain,
        "events": gateway_cli.events,
        "forget": gateway_cli.forget,
        "gateway": gateway_cli.gateway,
        "pause": gateway_cli.pause,
        "peek": gateway_cli.peek,
        "resume": gateway_cli.resume,
        "status": gateway_cli.status,
        "timeline": gateway_cli.timeline,
        "top": gateway_cli.top,
        "why": gateway_cli.why,
    }
    for name in of_gateway:
        assert gateway_cli.program.commands[name] is mounted[name]
    of_files, of_gateways = connectors_cli.dead_letters.commands, gateway_cli.dead_letters.commands
    dead_letters = cli.get_command(context, "dead-letters")
    assert isinstance(dead_letters, click.Group)
    assert dead_letters.commands == {**of_files, **of_gateways}
    assert set(gateway_cli.gateway.commands.items()) <= set(gateway_cli.program.commands.items())
    assert set(connectors_cli.connector.commands.items()) <= set(connectors_cli.program.commands.items())


@pytest.mark.parametrize("module", ["gateway_cli", "connectors_cli", "conformance"])
def test_a_programs_help_loads_nothing_heavy(module: str) -> None:
    heavy = ("grpc", "pydantic", "rich", "pyspark", "numpy", "pyarrow")
    code = (
        f"import sys\nfrom headrace.{module} import program\nprogram.main(['--help'], standalone_mode=False)\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)

    assert result.stdout.splitlines()[-1] == "[]"
