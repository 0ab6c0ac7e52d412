"""`--token-file`: every command that takes a token takes a file with it, and says what is wrong with the file."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from headrace.cli import cli
from headrace.terminal import Connection, own_connection_options


def commands(group: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands of the program, with the words that call them."""
    yield path, group
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield from commands(command, (*path, name))


def test_every_command_that_takes_a_token_takes_a_file_with_it() -> None:
    found = 0
    for path, command in commands(cli):
        options = {option.name: option.opts for option in command.params if isinstance(option, click.Option)}
        token = options.get("token")
        if token is not None:
            found += 1
            # A connector may have a token of its own, so that the gateway's options have a prefix.
            assert options["token_file"] == [f"{token[0]}-file"], path
    assert found > 20


def connected(words: list[str], environ: dict[str, str]) -> "tuple[Connection | None, str]":
    """The connection that a command is given, and what is printed."""
    found: list[Connection] = []

    @click.command()
    @own_connection_options
    def command(connection: Connection) -> None:
        found.append(connection)

    result = CliRunner().invoke(command, words, env={"HEADRACE_TOKEN": None, "HEADRACE_TOKEN_FILE": None, **environ})
    return (found[0] if found else None), result.output


@pytest.mark.parametrize(
    ("words", "environ", "token"),
    [
        (["--token-file", "file"], {}, "of the file"),
        (["--token-file", "file"], {"HEADRACE_TOKEN": "variable"}, "of the file"),
        ([], {"HEADRACE_TOKEN": "variable", "HEADRACE_TOKEN_FILE": "file"}, "of the file"),
        (["--token", "typed"], {"HEADRACE_TOKEN_FILE": "file"}, "typed"),
        (["--token", "typed"], {"HEADRACE_TOKEN_FILE": "absent"}, "typed"),
        ([], {"HEADRACE_TOKEN": "variable"}, "variable"),
    ],
)
def test_what_is_typed_precedes_variables_and_the_file_precedes_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], environ: dict[str, str], token: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("of the file\n")
    (tmp_path / "file").chmod(0o600)
    connection, printed = connected(words, environ)
    assert connection is not None, printed
    assert connection.metadata == (("authorization", f"Bearer {token}"),)
    assert token not in repr(connection) or token != "of the file"


def test_a_file_that_has_no_token_is_a_usage_error() -> None:
    for words, said in (
        (["--token-file", "/nowhere"], "--token-file: /nowhere: there is no such file"),
        (["--token-file", "/nowhere", "--token", "x"], "--token and --token-file exclude each other"),
    ):
        result = CliRunner().invoke(cli, ["status", *words])
        assert (result.exit_code, said in result.output) == (2, True), result.output
