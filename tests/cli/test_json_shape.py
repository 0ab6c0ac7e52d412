"""`--json` has one shape: every command of every program is found here by itself, and none may have another."""

from collections.abc import Iterator
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import click
import pytest
from click.testing import CliRunner
from tests.cli.json_shape import FIELDS, document_of, faults_of
from tests.cli.test_roles import PROGRAMS
from typing_extensions import is_typeddict

import headrace.gateway_status
from headrace.cli import cli
from headrace.terminal import Failure, JsonOption, ProgramGroup, json_option, print_result

PLAIN = {
    "completion": "prints a script for a shell",
    "connect-server": "runs until it is stopped, and prints its log",
    "connector positions": "prints the file that positions rewind reads",
    "connector run": "runs until it is stopped, and prints its log",
    "connector schema": "prints a JSON Schema",
    "dead-letters replay-files": "runs until it is stopped, and prints its log",
    "gateway": "runs until it is stopped, and prints its log",
    "gateway token": "prints a table for a configuration file",
    "state export": "prints one state per line, for other programs",
    "top": "is a view for a terminal",
}
"""The commands without the option, and why; commands below one of them have none for the same reason."""
STARTS_SPARK = ("doctor", "positions", "run")
"""Commands that call a gateway, after they have started what this test does not."""
Found = tuple[click.Group, list[str], click.Command]


def commands() -> Iterator[Found]:
    """Each command that can be called, of all programs, with what is typed to call it."""
    yield from _below(cli, cli, [], click.Context(cli, info_name="headrace"))
    for name, program in PROGRAMS.items():
        yield from _below(program, program, [], click.Context(program, info_name=name))


def _below(root: click.Group, command: click.Command, words: list[str], ctx: click.Context) -> Iterator[Found]:
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield root, words, command
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None
            yield from _below(root, inner, [*words, name], click.Context(inner, info_name=name, parent=ctx))


def name_of(root: click.Group, words: list[str]) -> str:
    """How a command is typed after `headrace`, whichever program contains it."""
    line = " ".join([root.name or "", *words])
    for of_headrace, here in sorted(getattr(root, "typed", {}).items(), key=lambda pair: -len(pair[1])):
        if f"{line} ".startswith(f"{here} "):
            return f"{of_headrace}{line[len(here) :]}".removeprefix("headrace ")
    return " ".join(words)


def has_option(command: click.Command) -> bool:
    return any(isinstance(parameter, JsonOption) for parameter in command.params)


COMMANDS = list(commands())
WITH_OPTION = [pytest.param(root, words, id=f"{root.name} {' '.join(words)}") for root, words, one in COMMANDS if has_option(one)]
CALLS = [
    pytest.param(root, words, command, id=f"{root.name} {' '.join(words)}")
    for root, words, command in COMMANDS
    if has_option(command)
    and any(parameter.name == "gateway" for parameter in command.params)
    and words[:1] not in [[name] for name in STARTS_SPARK]
    and name_of(root, words) != "context add"
]


def test_every_command_has_the_option_or_a_reason() -> None:
    lacks = {name_of(root, words) for root, words, command in COMMANDS if not has_option(command)}

    assert not {name for name in lacks if not any(f"{name} ".startswith(f"{known} ") for known in PLAIN)}
    assert not {known for known in PLAIN if known not in lacks}


def test_the_laboratory_is_among_the_commands() -> None:
    found = {name_of(root, words) for root, words, _ in COMMANDS}

    assert {"bench core", "chaos", "demo", "demo cluster", "soak", "gateway reload", "conformance source"} <= found


@pytest.mark.parametrize(("root", "words"), WITH_OPTION)
def test_a_usage_error_has_the_shape(root: click.Group, words: list[str]) -> None:
    done = CliRunner().invoke(root, [*words, "--json", "--no-such-option"])

    document = document_of(done.stdout)
    assert done.exit_code == 2
    assert not done.stderr
    assert document["command"] == name_of(root, words)
    assert document["error"].startswith("No such option")


@pytest.mark.parametrize(("root", "words", "command"), CALLS)
def test_a_failed_call_has_the_shape(root: click.Group, words: list[str], command: click.Command) -> None:
    given = [text for parameter in command.params if parameter.required for text in _given(parameter)]
    done = CliRunner().invoke(root, [*words, *given, "--json", "--gateway", "127.0.0.1:1"])

    document = document_of(done.stdout)
    assert done.exit_code == 1
    assert not done.stderr
    assert document["command"] == name_of(root, words)
    assert "127.0.0.1:1" in document["error"]


def _given(parameter: click.Parameter) -> list[str]:
    value = parameter.type.choices[0] if isinstance(parameter.type, click.Choice) else "orders/0"
    return [value] if isinstance(parameter, click.Argument) else [parameter.opts[0], value]


def documents() -> Iterator[type]:
    """Each type of a document that a gateway's status is printed as, and of those within."""
    seen: set[type] = set()
    waiting = [getattr(headrace.gateway_status, name) for name in headrace.gateway_status.__all__]
    while waiting:
        one = waiting.pop()
        if is_typeddict(one) and one not in seen:
            seen.add(one)
            yield one
            waiting += [inner for hint in get_type_hints(one).values() for inner in _parts(hint)]


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for inner in get_args(hint):
        yield from _parts(inner)


def _example(hint: Any) -> Any:
    kinds = [kind for kind in get_args(hint) if kind is not NoneType] if get_origin(hint) not in (dict, list) else []
    return 1 if hint in (int, float) or any(kind in (int, float) for kind in kinds) else "text"


@pytest.mark.parametrize("document", list(documents()), ids=lambda document: document.__name__)
def test_the_fields_of_a_gateways_documents_keep_the_rules(document: type) -> None:
    assert not list(faults_of({name: _example(hint) for name, hint in get_type_hints(document).items()}))


def test_names_and_times_that_break_the_rules_are_found() -> None:
    wrong = {"takenAt": "2026-11-28T20:00:00", "age": 5, "streams": [{"lag-ms": 1}], "committed": {"orders/0": {"atMs": 1}}}

    assert len(list(faults_of(wrong))) == 5
    assert not list(faults_of({"taken_at": "2026-11-28T20:00:00Z", "age_ms": 5, "committed": {"orders/0": {"sequence": 1}}}))


def program_that(fails_with: Exception | None) -> click.Group:
    """A program with one command, `try it`."""

    @click.group(cls=ProgramGroup)
    def program() -> None:
        """A program."""

    @program.group("try")
    def tries() -> None:
        """A group that is not of the program's own kind."""

    @tries.command("it")
    @json_option()
    @click.option("--count", type=int)
    def it(as_json: bool, count: int | None) -> None:
        if fails_with is not None:
            raise fails_with
        if as_json:
            print_result("done", {"count": count})

    return program


def test_the_shape_is_that_of_the_page() -> None:
    done = CliRunner().invoke(program_that(None), ["try", "it", "--json", "--count", "2"])
    assert list(document_of(done.stdout)) == FIELDS
    assert document_of(done.stdout) == {"command": "try it", "ok": True, "summary": "done", "result": {"count": 2}, "error": None}


@pytest.mark.parametrize(
    ("failure", "summary", "result"),
    [
        (Failure("it is away\nask again", 3), "it is away", None),
        (
            Failure("it is away\nask again", 3, result={"left": 1}).with_summary("nothing has changed"),
            "nothing has changed",
            {"left": 1},
        ),
    ],
)
def test_a_failure_has_its_exit_code_with_json_and_without(failure: Failure, summary: str, result: Any) -> None:
    plain, as_json = (CliRunner().invoke(program_that(failure), ["try", "it", *more]) for more in ((), ("--json",)))

    assert (plain.exit_code, plain.stdout, plain.stderr) == (3, "", "Error: it is away\nask again\n")
    assert (as_json.exit_code, as_json.stderr) == (3, "")
    document = document_of(as_json.stdout)
    assert (document["summary"], document["result"], document["error"]) == (summary, result, "it is away\nask again")


@pytest.mark.parametrize("words", [["--json", "--count", "two"], ["--count", "two", "--json"], ["--json", "surplus"]])
def test_words_that_cannot_be_parsed_are_reported_as_json(words: list[str]) -> None:
    done = CliRunner().invoke(program_that(None), ["try", "it", *words])

    assert (done.exit_code, done.stderr) == (2, "")
    assert not document_of(done.stdout)["ok"]


def test_an_error_of_the_program_itself_is_none_of_the_shape() -> None:
    done = CliRunner().invoke(program_that(ValueError("a defect")), ["try", "it", "--json"])

    assert isinstance(done.exception, ValueError)
    assert not done.stdout
