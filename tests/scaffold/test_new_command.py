"""`headrace new` as people and programs see it: what it writes and prints, and what it refuses."""

import json
import os
import re
import stat
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.scaffold.projects import ROOT

from headrace.cli import cli
from headrace.contract.languages import LANGUAGES

VERSION = version("headrace")
_HINT = "this Headrace runs from a checkout: until its version is released, add --sdk "


def new(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["new", *map(str, arguments)])


def is_refused(result: Result, told: str, into: Path) -> None:
    """Whether a command has failed with exit code 2 and one line, and has written nothing."""
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert told in result.stderr
    assert list(into.iterdir()) == []


def test_help_shows_an_example_of_each_kind() -> None:
    for kind in ("source", "sink", "app"):
        assert f"headrace new {kind} " in new(kind, "--help").output
        assert f"headrace new {kind} " in new("--help").output


@pytest.mark.parametrize("kind", ["source", "sink"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_project_depends_on_the_release_of_this_headrace(kind: str, language: str, into: Path) -> None:
    result = new(kind, "--lang", language, "order-events", "--into", into)
    assert result.exit_code == 0, result.output
    folder = into / "order-events"
    wanted = {
        "python": ("pyproject.toml", f'"headrace-sdk=={VERSION}"'),
        "go": ("go.mod", f"require github.com/headrace/headrace/sdk/go v{VERSION}\n"),
        "typescript": ("package.json", f'"@headrace/sdk": "{VERSION}"'),
        "java": ("pom.xml", f"<artifactId>headrace-sdk</artifactId>\n      <version>{VERSION}</version>"),
        "rust": ("Cargo.toml", f'headrace = "{VERSION}"\n'),
    }
    file, text = wanted[language]
    assert text in (folder / file).read_text()
    everything = "".join(path.read_text() for path in folder.rglob("*") if path.is_file())
    assert "@@" not in everything
    assert str(ROOT) not in everything
    assert {"README.md", ".gitignore", "conformance.toml", "deploy.toml"} <= {path.name for path in folder.iterdir()}
    assert 1 <= everything.lower().count("replace th") <= 8


def test_the_next_commands_are_printed(into: Path) -> None:
    result = new("source", "--lang", "go", "order-events", "--into", into)
    assert result.stdout.splitlines() == [
        f"created {into}/order-events: a source in Go, 11 files",
        "",
        "next:",
        f"  cd {into}/order-events",
        "  go mod tidy",
        "  go build -o connector .",
        f"  export HEADRACE_CONNECTORS={into}",
        "  headrace connector describe order-events",
        "",
        "README.md says how to test and run it",
    ]
    assert result.stderr == f"{_HINT}{ROOT / 'sdk' / 'go'}\n"


def test_the_json_document_is_stable(into: Path) -> None:
    result = new("app", "word-count", "--into", into, "--json")
    document = json.loads(result.stdout)
    assert set(document) == {"command", "ok", "summary", "result", "error"}
    assert (document["command"], document["ok"], document["error"]) == ("new app", True, None)
    found = document["result"]
    assert set(found) == {"name", "kind", "language", "folder", "files", "next", "hint"}
    assert (found["name"], found["kind"], found["language"]) == ("word-count", "app", "Python")
    assert {str(path.relative_to(found["folder"])) for path in Path(found["folder"]).rglob("*") if path.is_file()} == {
        *found["files"]
    }


@pytest.mark.parametrize(
    "name", ["", "Orders", "9lives", "order_events", "-x", "x-", "a--b", "ä", "a b", "../x", "a/b", "x" * 41]
)
def test_an_odd_name_is_refused_with_the_rule(name: str, into: Path) -> None:
    for arguments in (("source", "--lang", "go"), ("app",)):
        told = "up to 40 small letters, digits and single hyphens, and begins with a letter, such as order-events"
        is_refused(new(*arguments, "--into", into, "--", name), told, into)


@pytest.mark.parametrize(
    ("language", "name"), [("python", "json"), ("python", "class"), ("java", "new"), ("rust", "match"), ("rust", "tokio")]
)
def test_a_name_that_the_language_uses_itself_is_refused(language: str, name: str, into: Path) -> None:
    is_refused(new("sink", "--lang", language, name, "--into", into), f"its package would be {name}", into)


@pytest.mark.parametrize("name", ["json", "new"])
def test_a_name_is_only_refused_where_it_does_harm(name: str, into: Path) -> None:
    assert new("sink", "--lang", "go", name, "--into", into).exit_code == 0


def test_the_name_of_a_bundled_connector_is_refused(into: Path) -> None:
    is_refused(new("source", "--lang", "go", "kafka", "--into", into), "kafka is a bundled connector", into)
    assert new("app", "kafka", "--into", into).exit_code == 0


def test_an_unknown_language_is_refused(into: Path) -> None:
    is_refused(new("source", "--lang", "cobol", "orders", "--into", into), "'cobol' is not one of 'python', 'go'", into)
    is_refused(new("source", "orders", "--into", into), "Missing option '--lang'", into)


def test_the_languages_of_the_option_are_those_of_the_templates() -> None:
    from headrace.scaffold import SCAFFOLDS

    choices = re.search(r"--lang \[([a-z|]+)\]", new("source", "--help").output)
    assert choices is not None
    assert choices[1].split("|") == list(SCAFFOLDS) == list(LANGUAGES)


def test_a_folder_that_is_not_empty_is_left_alone(into: Path) -> None:
    folder = into / "orders"
    folder.mkdir()
    (folder / "mine").write_text("mine")
    result = new("source", "--lang", "rust", "orders", "--into", into)
    assert result.exit_code == 2
    assert f"{folder} is there already, and is not an empty folder" in result.stderr
    assert [path.name for path in into.rglob("*")] == ["orders", "mine"]


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("/"), lambda path: path.symlink_to("missing")])
def test_something_else_of_the_name_is_left_alone(make: object, into: Path) -> None:
    make(into / "orders")  # type: ignore[operator]
    assert new("app", "orders", "--into", into).exit_code == 2
    assert [path.name for path in into.iterdir()] == ["orders"]


def test_an_empty_or_missing_folder_is_used(into: Path) -> None:
    (into / "orders").mkdir()
    assert new("app", "orders", "--into", into).exit_code == 0
    assert new("app", "orders", "--into", into / "further" / "down").exit_code == 0
    assert (into / "further" / "down" / "orders" / "app.py").is_file()


def test_the_working_directory_is_the_default(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(into)
    assert new("app", "orders").exit_code == 0
    assert (into / "orders" / "app.py").is_file()


def test_nothing_can_be_changed_by_others_whatever_the_umask(into: Path) -> None:
    before = os.umask(0)
    try:
        assert new("source", "--lang", "java", "orders", "--into", into).exit_code == 0
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (into / "orders").rglob("*")}
    assert modes == {0o755, 0o644}
    assert stat.S_IMODE((into / "orders").stat().st_mode) == 0o755


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_folder_that_is_no_sdk_is_refused(language: str, into: Path) -> None:
    for sdk in (ROOT, into / "missing"):
        told = f"{sdk} is not the SDK for"
        is_refused(new("source", "--lang", language, "orders", "--into", into, "--sdk", sdk), told, into)


@pytest.mark.parametrize("arguments", [("sink", "--lang", "go", "x" * 41), ("source", "--lang", "go", "kafka")])
def test_a_refusal_is_json_if_that_is_asked_for(arguments: tuple[str, ...], into: Path) -> None:
    result = new(*arguments, "--into", into, "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["ok"], document["result"]) == (2, False, None)
    assert arguments[-1] in document["error"]


def test_a_folder_that_cannot_be_written_is_an_error_of_the_machine(into: Path) -> None:
    (into / "file").touch()
    result = new("app", "orders", "--into", into / "file")
    assert result.exit_code == 3
    assert f"cannot write {into / 'file'}" in result.stderr


def test_headrace_from_a_checkout_is_installed_by_pip(into: Path) -> None:
    for arguments in (("source", "--lang", "python"), ("app",)):
        result = new(*arguments, f"{arguments[0]}-x", "--into", into, "--sdk", ROOT / "sdk" / "python", "--json")
        found = json.loads(result.stdout)["result"]
        lines = (Path(found["folder"]) / "headrace-checkout.txt").read_text().splitlines()[1:]
        assert "pip install -r headrace-checkout.txt -e '.[dev]'" in found["next"]
        assert f"-e {ROOT / 'sdk' / 'python'}" in lines
        assert all((Path(line.removeprefix("-e ")) / "pyproject.toml").is_file() for line in lines)


def test_an_sdk_may_be_in_a_folder_with_an_odd_name(into: Path, tmp_path: Path) -> None:
    odd = tmp_path / 'an "odd" ä\\folder'
    odd.mkdir()
    for language in ("go", "typescript", "rust"):
        sdk = odd / f"{language} copy"
        sdk.mkdir()
        for name in ("go.mod", "package.json", "Cargo.toml"):
            if (ROOT / "sdk" / language / name).exists():
                (sdk / name).write_text((ROOT / "sdk" / language / name).read_text())
        assert new("sink", "--lang", language, f"{language}-x", "--into", into, "--sdk", sdk).exit_code == 0
    config = tomllib.loads((into / "rust-x" / ".cargo" / "config.toml").read_text())
    assert config["patch"]["crates-io"]["headrace"]["path"] == f"{odd}/rust copy"
    assert f"=> {json.dumps(f'{odd}/go copy', ensure_ascii=False)}\n" in (into / "go-x" / "go.work").read_text()


@pytest.mark.parametrize("language", LANGUAGES)
def test_whoever_clones_a_project_that_builds_with_a_checkout_builds_with_the_release(language: str, into: Path) -> None:
    created = [
        new("source", "--lang", language, "orders", "--into", into / name, *more, "--json")
        for name, more in (("released", ()), ("checkout", ("--sdk", ROOT / "sdk" / language)))
    ]
    hints = [json.loads(one.stdout)["result"]["hint"] for one in created]
    assert hints == [
        f"this Headrace runs from a checkout: until its version is released, add --sdk {ROOT / 'sdk' / language}",
        None,
    ]
    cloned = into / "cloned"
    with_sdk = into / "checkout" / "orders"
    subprocess.run(["git", "init", "--quiet", with_sdk], check=True)
    subprocess.run(["git", "-C", with_sdk, "add", "."], check=True)
    subprocess.run(["git", "-C", with_sdk, "checkout-index", "--all", f"--prefix={cloned}/"], check=True)
    released = into / "released" / "orders"
    files = {path.relative_to(released): path.read_text() for path in released.rglob("*") if path.is_file()}
    assert {path.relative_to(cloned): path.read_text() for path in cloned.rglob("*") if path.is_file()} == files
