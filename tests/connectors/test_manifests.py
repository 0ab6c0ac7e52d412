"""Manifests: what they declare, the errors for invalid ones, and who may put them there."""

import json
import os
import re
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result
from tests.cli.json_shape import result_of
from tests.connectors.manifests import DUMP, MANIFEST, add, environ

from headrace.cli import cli
from headrace.connectors import CONNECTORS, ConnectorUnavailable, catalog, find_connector
from headrace.connectors.configuration import load_connector


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The search path."""
    folder = tmp_path / "connectors"
    folder.mkdir(mode=0o755)
    for name, value in environ(folder).items():
        monkeypatch.setenv(name, value)
    return folder


def headrace(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)])


def connector(*arguments: str | Path) -> Result:
    return headrace("connector", *arguments)


def reason(name: str = "acme") -> str:
    """Why a connector cannot be used."""
    with pytest.raises(ConnectorUnavailable) as caught:
        find_connector(name)
    return caught.value.reason


# What a manifest declares


def test_it_stands_beside_the_bundled_connectors(folder: Path) -> None:
    manifest = add(folder)
    (row,) = [line for line in connector("list").output.splitlines() if line.startswith("acme ")]
    assert row.split() == ["acme", "source", "yes", "-", str(manifest), "a", "queue", "of", "Acme"]
    (listed,) = [one for one in result_of(connector("list", "--json").output)["connectors"] if one["name"] == "acme"]
    assert (listed["origin"], listed["module"], listed["distribution"]) == (str(manifest), None, None)
    assert listed["program"]["capabilities"] == ["pace", "report"]
    described = connector("describe", "acme").output
    assert "guarantee: exactly once" in described
    for line in (f"from: {manifest}", "version: 1.2.0", "language: shell", "capabilities: pace report", "check: ./check"):
        assert line in described.splitlines()
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in described.splitlines() if line}
    assert rows["password"] == "text - no yes Whom to be."
    assert rows["prefetch"] == "whole number, at least 1, at most 1000 100 no no How many at once."
    assert rows["hosts"] == "list of texts localhost no no Where it is."
    assert rows["buffer"] == "size 64mb no no How much is kept."
    assert rows["wait"] == "duration, at least 1s - no no How long to wait."
    assert rows["order"] == "old or new old no no Which first."
    assert rows["last"] == "true or false false no no Whether to begin at the end."


def test_its_parameters_are_options(folder: Path) -> None:
    add(folder)
    shown = connector("run", "acme", "--help").output
    for option in (
        "--prefetch N",
        "--buffer SIZE",
        "--wait DURATION",
        "--order [old|new]",
        "--last / --no-last",
        "--folder PATH",
    ):
        assert option in shown
    assert "HEADRACE_ACME_PASSWORD" in shown
    assert "A queue of Acme." in shown
    assert "headrace connector run acme --source orders" in shown
    for words, told in (
        (("--prefetch", "0"), "--prefetch: must be greater than or equal to 1"),
        (("--wait", "10ms"), "--wait: must be greater than or equal to 1"),
        (("--buffer", "1 cow"), "--buffer: '1 cow' is not a size"),
        (("--order", "ol"), "'ol' is not one of 'old', 'new'"),
    ):
        result = connector("run", "acme", "--source", "s", *words)
        assert (result.exit_code, told in result.stderr) == (2, True), result.stderr


FILE = """
connector = "acme"
source = "s"
password = "${PASSWORD:-xyz}"
hosts = "one"
prefetch = "${PREFETCH:-7}"
buffer = "2kb"
wait = "1.5s"
last = true
folder = "data"
"""


def test_a_file_configures_it(folder: Path, tmp_path: Path) -> None:
    add(folder)
    file = tmp_path / "c.toml"
    file.write_text(FILE)
    configured = load_connector(str(file))
    assert configured.connector.name == "acme"
    values = configured.parameters.model_dump(by_alias=True, exclude={"password"})
    assert values == {
        "source": "s",
        "hosts": ["one"],
        "prefetch": 7,
        "buffer": 2048,
        "wait": 1.5,
        "order": "old",
        "last": True,
        "folder": tmp_path / "data",
    }
    assert "xyz" not in repr(configured)
    file.write_text(FILE.replace("prefetch", "prefetc").replace("2kb", "2 cows"))
    problems = connector("check", "-c", file).stderr.splitlines()
    assert [problem.rpartition("c.toml")[2] for problem in problems] == [
        ":6: prefetc: unknown key; did you mean prefetch?",
        ":7: buffer: '2 cows' is not a size; write for instance 64mb; units are b, kb, mb, gb and tb, in powers of 1024",
    ]


def test_it_is_part_of_a_deployment(folder: Path, tmp_path: Path) -> None:
    add(folder)
    file = tmp_path / "deploy.toml"
    file.write_text('[connectors.orders]\nconnector = "acme"\nsource = "orders"\n')
    shown = result_of(headrace("run", file, "--dry-run", "--json").output)
    assert {"name": "orders", "kind": "source", "what": "acme"} in shown["processes"]
    file.write_text(file.read_text().replace("source =", "sorce ="))
    assert (
        "deploy.toml:3: connectors.orders.sorce: unknown key; did you mean source?" in headrace("run", file, "--dry-run").stderr
    )


def test_editors_get_its_schema(folder: Path) -> None:
    add(folder)
    schema = json.loads(connector("describe", "acme", "--schema").output)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    good = {"connector": "acme", "source": "s", "wait": "1 hour 30 minutes", "buffer": "64mb", "hosts": "one", "last": "${LAST}"}
    assert list(validator.iter_errors(good)) == []
    for bad in ({"wait": "1 cow"}, {"prefetch": 0}, {"order": "x"}, {"sorce": "s"}, {"buffer": "64 cows"}):
        assert list(validator.iter_errors(good | bad)), bad
    every = json.loads(connector("schema").output)
    assert [file["title"] for file in every["oneOf"]] == [*(known.name for known in CONNECTORS), "acme"]


def test_a_sink(folder: Path) -> None:
    text = MANIFEST.replace('"source"', '"sink"').replace("replayable = true", 'mode = "two-phase"').replace(".source]", ".sink]")
    add(folder, text=text)
    found = find_connector("acme")
    assert found is not None
    assert (found.kind, found.mode, found.replayable) == ("sink", "two-phase", None)


@pytest.mark.parametrize("name", ["model_dump_path", "copy", "json", "class", "model_config", "schema", "last"])
def test_no_name_is_taken_by_the_class_of_parameters(folder: Path, name: str, recwarn: pytest.WarningsRecorder) -> None:
    add(folder, text=MANIFEST.replace("parameters.last]", "parameters.other]").replace("parameters.wait]", f"parameters.{name}]"))
    found = find_connector("acme")
    assert found is not None
    given = found.load().parameters.model_validate({"source": "s", name: "90s"})
    assert given.model_dump(by_alias=True)[name] == 90
    assert [str(warning.message) for warning in recwarn] == []


def test_texts_with_dollars_are_left_as_they_are(folder: Path) -> None:
    add(folder, text=MANIFEST.replace("Whom to be.", "Such as ${{USER}}."))
    assert "Such as ${USER}." in connector("describe", "acme").output


# What is wrong with a manifest

S = "[parameters.source]"
BAD = {
    "name = ": ('name = "{name}"', 'name = "other"', "3: name: must be acme, the name of its folder; rename one of them"),
    "version": ("manifest_version = 1", "manifest_version = 2", "2: manifest_version: must be 1; a newer version needs a newer"),
    "no version": ("manifest_version = 1\n", "", ": manifest_version: is required"),
    "unknown key": ("language", "lanugage", "8: lanugage: unknown key; did you mean language?"),
    "kind": ('"source"', '"sorce"', "4: kind: must be 'source' or 'sink'; did you mean source?"),
    "no replayable": ("replayable = true\n", "", "replayable: is required for a source: true or false"),
    "mode of a source": ("replayable = true", 'replayable = true\nmode = "two-phase"', "6: mode: is for sinks; remove it"),
    "sink": ('kind = "source"', 'kind = "sink"', "5: replayable: is for sources; remove it"),
    "two lines": ("a queue of Acme", "a\\nb", "6: summary: must be one line of text"),
    "escape": ("a queue of Acme", "a\\u001b[31m", "6: summary: must be one line of text"),
    "shell": ('["./run", "--from", "{{folder}}/x y"]', '"./run --from x"', "9: command: must be a list in brackets"),
    "no command": ('["./run", "--from", "{{folder}}/x y"]', "[]", "9: command: must be a program and its arguments, such as"),
    "nul": ('"--from"', '"\\u0000"', "9: command: must not contain the character U+0000"),
    "type": ('type = "integer"', 'type = "int"', "parameters.prefetch.type: must be 'text', 'integer'"),
    "no description": ('description = "Whom to be."', "", "parameters.password.description: is required"),
    "yes": ("required = true", 'required = "yes"', "15: parameters.source.required: must be"),
    "no name": (f"{S}", "[parameters.stream]", "parameters: add a required parameter source of type text: it is the name"),
    "optional name": ("required = true", "", "13: parameters.source: add a required parameter source of type text"),
    "capital": (
        "parameters.wait]",
        "parameters.Wait]",
        "parameters.Wait: a parameter's name begins with a letter",
    ),
    "underscore": ("parameters.wait]", "parameters.wait_]", "parameters.wait_: a parameter's name begins with a letter"),
    "reserved": ("parameters.wait]", "parameters.instance]", "parameters.instance: the name is reserved; rename the parameter"),
    "of the gateway": ("parameters.wait]", "parameters.gateway_token]", "parameters.gateway_token: the name is reserved"),
    "no_": ("parameters.wait]", "parameters.no_last]", "parameters.no_last: the option --no-last belongs to last"),
    "default": (
        "required = true",
        'required = true\ndefault = "x"',
        "16: parameters.source.default: a required parameter",
    ),
    "secret": ("secret = true", 'secret = true\ndefault = "x"', "parameters.password.default: not possible for a secret"),
    "secret number": (
        '"integer"',
        '"integer"\nsecret = true',
        "parameters.prefetch.secret: only a parameter of type text",
    ),
    "choices": ("minimum = 1\n", 'choices = ["1"]\n', "parameters.prefetch.choices: only a parameter of type text can have"),
    "bounds": ("minimum = 1\n", "minimum = 2000\n", "parameters.prefetch.maximum: is less than minimum"),
    "bound of text": (
        "several = true",
        "several = true\nminimum = 1",
        "parameters.hosts.minimum: is for parameters of type",
    ),
    "bound": ('minimum = "1s"', 'minimum = "1 cow"', "parameters.wait.minimum: is not of type duration"),
    "wrong default": ("default = 100", "default = 0", "parameters.prefetch.default: must be greater than or equal to 1"),
    "default of choices": (
        'default = "old"',
        'default = "ol"',
        "parameters.order.default: must be 'old' or 'new'",
    ),
    "date": (
        "default = 100",
        "default = 2026-01-01",
        "parameters.prefetch.default: must be text, a number, true",
    ),
    "example": ('["orders"]', "[[1]]", "17: parameters.source.examples[0]: must be text in quotes"),
    "flags": ("default = false", "several = true", "parameters.last.several: a boolean cannot be a list"),
    "not TOML": ("kind =", "kind ==", "4: not valid TOML: Invalid value"),
    "deep": ("capabilities = [", f"capabilities = {'[' * 20_000}", ": is nested too deeply"),
    "digits": ("default = 100", f"default = {'9' * 5000}", ": not valid TOML: Exceeds the limit"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_manifest_is_told_with_line_and_key_and_breaks_nothing_else(folder: Path, name: str) -> None:
    before, after, told = BAD[name]
    assert before in MANIFEST
    manifest = add(folder, text=MANIFEST.replace(before, after, 1 if name != "sink" else -1))
    add(folder, "good")
    said = reason()
    assert said.startswith("its manifest is invalid\n")
    assert (f"{manifest}:{told}" if told[0].isdigit() else told) in said
    listed = connector("list")
    assert listed.exit_code == 0
    assert "acme" in listed.output.partition("cannot be used")[2]
    document = result_of(connector("list", "--json").output)
    assert [one["name"] for one in document["unavailable"]] == ["acme"]
    assert "good" in {one["name"] for one in document["connectors"]}
    failed = connector("describe", "acme")
    assert failed.exit_code == 3
    assert f"Error: connector acme of {manifest} cannot be used: its manifest is invalid" in failed.stderr


def test_what_is_no_manifest(folder: Path) -> None:
    (folder / "empty").mkdir()
    (folder / "file").write_text("")
    manifest = add(folder)
    manifest.unlink()
    manifest.mkdir(mode=0o755)
    assert reason() == f"{folder}/acme/headrace-connector.toml is not a file"
    assert [one.connector for one in catalog().unavailable] == ["acme"]


def test_an_oversized_manifest_is_refused(folder: Path) -> None:
    manifest = add(folder)
    manifest.write_text(manifest.read_text() + "#" * (256 << 10))
    assert re.fullmatch(r"its manifest has 26\d,\d{3} bytes, and 262,144 are allowed", reason())


@pytest.mark.parametrize("name", ["a b", "\x1b[31m", "ü"])
def test_names_are_those_of_the_contract(folder: Path, name: str) -> None:
    add(folder, name, MANIFEST.replace("{name}", "acme"))
    (one,) = catalog().unavailable
    assert one.connector.isprintable()
    assert connector("list").exit_code == 0


# Who has a name


def test_the_first_of_a_name_has_it(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = add(folder)
    second = add(tmp_path / "second")
    bundled = add(folder, "kafka")
    monkeypatch.setenv("HEADRACE_CONNECTORS", f"{folder}:{tmp_path / 'second'}")
    found = find_connector("acme")
    assert found is not None
    assert found.origin == str(first)
    assert {one.origin: one.reason for one in catalog().unavailable} == {
        str(second): f"its name is taken by a connector of {first}; one of them must be renamed or removed",
        str(bundled): "its name is taken by a bundled connector; one of them must be renamed or removed",
    }
    # A faulty manifest keeps its name: another program of the name is not run instead.
    first.write_text("")
    assert "its manifest is invalid" in reason()


def test_the_folders_of_the_search_path(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(tmp_path / "data/headrace/connectors", "of-the-user")
    add(tmp_path / "prefix/share/headrace/connectors", "of-the-prefix")
    add(folder, "given")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("sys.prefix", str(tmp_path / "prefix"))
    plugins = [known.name for known in catalog().connectors if known.origin != "bundled"]
    assert plugins == ["given", "of-the-user", "of-the-prefix"]
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    monkeypatch.setenv("HOME", str(tmp_path))
    add(tmp_path / ".local/share/headrace/connectors", "of-home")
    assert [known.name for known in catalog().connectors if known.origin != "bundled"] == ["given", "of-home", "of-the-prefix"]


def test_what_is_wrong_with_the_search_path(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_CONNECTORS", f"connectors:{tmp_path}/absent::")
    add(folder)
    shown = connector("list")
    assert shown.exit_code == 0
    assert shown.stderr.splitlines() == [
        f"note: HEADRACE_CONNECTORS: connectors is not used: write an absolute path, such as {folder}",
        f"note: the connectors in {tmp_path}/absent cannot be listed: No such file or directory",
    ]
    assert len(result_of(connector("list", "--json").output)["notes"]) == 2


# Who can change it


@pytest.mark.parametrize("part", ["", "acme", "acme/headrace-connector.toml"])
@pytest.mark.parametrize(("mode", "who"), [(0o020, "its group"), (0o002, "everybody"), (0o1002, "everybody")])
def test_what_others_can_change_is_refused(folder: Path, part: str, mode: int, who: str) -> None:
    add(folder)
    add(folder, "x y")
    path = folder / part
    path.chmod(path.stat().st_mode | mode)
    assert reason() == f"{path} is writable by {who}: chmod go-w {path}"
    assert connector("run", "acme", "--source", "s").exit_code == 3
    path.chmod(path.stat().st_mode & ~0o022)
    assert find_connector("acme") is not None


def test_folders_above_are_looked_at_too(folder: Path, tmp_path: Path) -> None:
    add(folder)
    tmp_path.chmod(0o777)
    assert reason() == f"{tmp_path} is writable by everybody: chmod go-w {tmp_path}"
    # As in /tmp, others cannot rename what is there.
    tmp_path.chmod(0o1777)
    assert find_connector("acme") is not None


def test_links_are_followed(folder: Path, tmp_path: Path) -> None:
    manifest = add(tmp_path / "elsewhere")
    (folder / "acme").symlink_to(manifest.parent)
    assert find_connector("acme") is not None
    manifest.parent.chmod(0o777)
    assert reason() == f"{manifest.parent} is writable by everybody: chmod go-w {manifest.parent}"
    (folder / "circle").mkdir()
    (folder / "circle/headrace-connector.toml").symlink_to("headrace-connector.toml")
    assert "cannot be read" in reason("circle")


def test_what_belongs_to_others_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = add(folder, run=DUMP)
    owner = manifest.stat().st_uid
    if owner == 0:
        os.chown(manifest, 65534, 0)
        assert re.fullmatch(rf"{manifest} belongs to \w+: chown \w+ {manifest}", reason())
    else:
        monkeypatch.setattr("os.geteuid", lambda: owner + 1)
        assert " belongs to " in reason()
