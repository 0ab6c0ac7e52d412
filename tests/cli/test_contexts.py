"""Contexts: what they contain, who uses them, and that nothing of one goes to another gateway."""

import json
import os
import stat
import threading
from itertools import product
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cli.json_shape import result_of

from headrace.cli import cli
from headrace.terminal import Connection, connection_options, own_connection_options
from headrace.terminal.contexts import Context, Contexts, changing_contexts, load_contexts

SOURCES = ("none", "environment", "command line")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
        monkeypatch.delenv(name)
    path = tmp_path / "settings" / "contexts.toml"
    monkeypatch.setenv("HEADRACE_CONTEXTS", str(path))
    return path


def headrace(*words: str) -> Result:
    return CliRunner().invoke(cli, ["context", *words], env={"COLUMNS": "80"})


def add(folder: Path, name: str) -> None:
    token = folder / f"{name}.token"
    token.write_text(f"token of {name}\n")
    done = headrace("add", name, "--gateway", f"{name}:7433", "--token-file", str(token))
    assert done.exit_code == 0, done.output


def called(words: list[str], environ: dict[str, str], *, own: bool = False) -> Connection:
    """The connection that a command gets."""
    found = []

    @click.command()
    @(own_connection_options if own else connection_options)
    def command(connection: Connection) -> None:
        found.append(connection)

    result = CliRunner().invoke(command, words, env=environ)
    assert result.exit_code == 0, result.output
    return found[0]


def test_contexts_are_added_used_listed_and_removed(tmp_path: Path, file: Path) -> None:
    assert "there are no contexts" in headrace("list").output
    add(tmp_path, "prod")
    add(tmp_path, "test")
    assert headrace("use", "test").output == "context test is in use\n"
    found = result_of(headrace("list", "--json").output)
    assert [(row["context"], row["used"], row["gateway"]) for row in found["contexts"]] == [
        ("prod", False, "prod:7433"),
        ("test", True, "test:7433"),
    ]
    assert "token of" not in json.dumps(found) + file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    lines = headrace("list").output.splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["prod", "prod:7433", "file", "no"],
        ["*", "test", "test:7433", "file", "no"],
    ]
    assert headrace("remove", "test").exit_code == 0
    assert load_contexts().used is None
    assert headrace("use", "--none").exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["add", "prod", "--gateway", "x:1"], "there is a context prod already; to replace it: --replace"),
        (["add", "-x", "--gateway", "x:1"], "No such option"),
        (["add", "a\nb", "--gateway", "x:1"], "is no name for a context"),
        (["add", "new", "--gateway", "x:1", "--token-file", "/nowhere"], "/nowhere: there is no such file"),
        (["use", "prodd"], "there is no context prodd; there are: prod"),
        (["use"], "name a context, or pass --none"),
        (["use", "prod", "--none"], "name a context, or pass --none"),
        (["remove", "other"], "there is no context other"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(tmp_path: Path, file: Path, words: list[str], said: str) -> None:
    add(tmp_path, "prod")
    before = file.read_text()
    result = headrace(*words)
    assert (result.exit_code, said in result.output) == (2, True), result.output
    assert file.read_text() == before


@pytest.mark.parametrize(("gateway", "context", "in_use"), list(product(SOURCES, SOURCES, (False, True))))
@pytest.mark.parametrize("token", SOURCES)
def test_nothing_of_a_context_goes_to_another_gateway_nor_the_other_way_round(
    tmp_path: Path, file: Path, gateway: str, context: str, in_use: bool, token: str
) -> None:
    add(tmp_path, "used")
    add(tmp_path, "named")
    headrace(*(["use", "used"] if in_use else ["use", "--none"]))
    words, environ = list[str](), dict[str, str]()
    for option, variable, value, source in (
        ("--gateway", "HEADRACE_GATEWAY", "given:1", gateway),
        ("--context", "HEADRACE_CONTEXT", "named", context),
        ("--token", "HEADRACE_TOKEN", "given", token),
    ):
        if source == "environment":
            environ[variable] = value
        elif source == "command line":
            words += [option, value]
    if gateway == context == "command line":
        result = CliRunner().invoke(cli, ["status", *words], env=environ)
        assert (result.exit_code, "exclude each other" in result.output) == (2, True)
        return
    found = called(words, environ)
    if gateway == "command line":
        expected = None
    elif context != "none":
        expected = "named"
    elif gateway == "environment" or not in_use:
        expected = None
    else:
        expected = "used"
    assert found.context == expected
    if expected is None:
        assert found.gateway == ("127.0.0.1:7433" if gateway == "none" else "given:1")
        assert found.secret == (None if token == "none" else "given")
    else:
        assert found.gateway == f"{expected}:7433"
        assert found.secret == ("given" if token == "command line" else f"token of {expected}")


def test_what_runs_a_part_of_a_deployment_ignores_contexts(tmp_path: Path, file: Path) -> None:
    add(tmp_path, "prod")
    found = called([], {"HEADRACE_CONTEXT": "prod"}, own=True)
    assert (found.gateway, found.secret, found.context) == ("127.0.0.1:7433", None, None)
    assert called([], {}).gateway == "prod:7433"


def test_a_token_is_read_by_each_command_and_one_that_cannot_be_read_is_named(tmp_path: Path, file: Path) -> None:
    add(tmp_path, "prod")
    token = tmp_path / "prod.token"
    token.write_text("another")
    assert called([], {}).secret == "another"
    for content, said in ((None, "there is no such file"), (b"", "is empty"), (b"\xff", "bytes that no token contains")):
        token.unlink(missing_ok=True)
        if content is not None:
            token.write_bytes(content)
        result = CliRunner().invoke(cli, ["status"])
        assert (result.exit_code, said in result.output, str(token) in result.output) == (2, True, True), result.output


@pytest.mark.parametrize(
    "content", ["used = 3", 'used = "x"', "contexts = 1", "[contexts.a]", "[contexts.a]\ngateway = 1", "[contexts.a]\nx = 1", "{"]
)
def test_a_file_that_is_not_one_of_contexts_is_named(file: Path, content: str) -> None:
    file.parent.mkdir()
    file.write_text(content)
    result = headrace("list")
    assert (result.exit_code, f"{file} is not a file of contexts" in result.output) == (2, True), result.output


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
paths = st.none() | texts.filter(lambda text: "\0" not in text).map(Path)
contexts = st.builds(Context, texts, paths, st.booleans(), paths, paths, paths)


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(texts, contexts, max_size=4), st.data())
def test_any_contexts_are_read_as_they_were_written(file: Path, wanted: dict[str, Context], data: st.DataObject) -> None:
    used = data.draw(st.sampled_from([None, *wanted]))
    with changing_contexts() as changing:
        changing.contexts = Contexts(wanted, used)
    assert load_contexts() == Contexts(wanted, used)


def test_commands_that_change_contexts_at_once_all_do_so(file: Path) -> None:
    def put(number: int) -> None:
        with changing_contexts() as changing:
            changing.put(f"context-{number}", Context(f"host-{number}:1"))

    threads = [threading.Thread(target=put, args=[number]) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(load_contexts().by_name) == 20
