"""Connectors of other distributions: entry points that stand beside the bundled connectors, and faulty ones that harm nobody."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.json_shape import result_of

from headrace.cli import cli
from headrace.connectors import CONNECTORS, Connector, ConnectorUnavailable, catalog, connector_names, find_connector

DECLARATION = """
from headrace.connectors import Connector

{variable} = Connector(
    "{name}", "source", replayable=True, mode=None, summary="numbers, counted", module="{module}:COUNTER", extra={extra!r}
)
"""

IMPLEMENTATION = """
from pydantic import Field
from headrace.connectors import Implementation, Parameters
from headrace.sdk import HeadraceError, Message, Source


class CounterParameters(Parameters):
    \"""Count.\"""

    source: str = Field(description="Name of the stream.", examples=["numbers"])
    until: int = Field(default=3, ge=1, description="The last number.")


class Counter(Source):
    def __init__(self, parameters):
        self.name, self.until = parameters.source, parameters.until

    def read(self, partition, position):
        first = position.sequence + 1 if position else 1
        for number in range(first, self.until + 1):
            yield Message(b"%d" % number, sequence=number)


def check(parameters):
    if parameters.until == 13:
        raise HeadraceError("13 is not available; choose another number")
    return f"{parameters.until} numbers"


COUNTER = Implementation(CounterParameters, Counter, check)
"""


def install(folder: Path, distribution: str, entries: dict[str, str], **modules: str) -> None:
    """Installs a distribution: its metadata with entry points, and its modules."""
    metadata = folder / f"{distribution.replace('-', '_')}-1.2.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
    lines = "".join(f"{name} = {value}\n" for name, value in entries.items())
    (metadata / "entry_points.txt").write_text(f"[console_scripts]\nx = x:x\n[headrace.connectors]\n{lines}")
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)


def declared(name: str, module: str, extra: str | None = None, variable: str = "CONNECTOR") -> str:
    return DECLARATION.format(name=name, module=module, extra=extra, variable=variable)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of modules that is on the path for the time of a test."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield folder
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]


@pytest.fixture
def counter(path: Path) -> Path:
    install(path, "acme-counter", {"counter": "acme:CONNECTOR"}, acme=declared("counter", "acme_impl"), acme_impl=IMPLEMENTATION)
    return path


def headrace(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)], env={"COLUMNS": "250"})


def connector(*arguments: str | Path) -> Result:
    return headrace("connector", *arguments)


def test_a_plugin_stands_beside_the_bundled_connectors(counter: Path) -> None:
    shown = connector("list")
    (row,) = [line for line in shown.output.splitlines() if line.startswith("counter ")]
    assert row.split() == ["counter", "source", "yes", "-", "acme-counter", "numbers,", "counted"]
    assert "cannot be used" not in shown.output
    (listed,) = [one for one in result_of(connector("list", "--json").output)["connectors"] if one["name"] == "counter"]
    assert (listed["distribution"], listed["guarantee"].partition(":")[0]) == ("acme-counter", "exactly once")
    described = connector("describe", "counter").output
    assert "from: acme-counter" in described
    assert "whole number, at least 1" in described
    assert "counter" in connector("run", "--help").output
    assert "headrace connector run counter --source numbers" in connector("run", "counter", "--help").output
    schema = json.loads(connector("schema").output)
    assert [file["title"] for file in schema["oneOf"]] == [*(known.name for known in CONNECTORS), "counter"]


def test_a_plugin_is_checked_by_options_and_by_a_file(counter: Path, tmp_path: Path) -> None:
    assert connector("check", "counter", "--source", "s").output == "counter is valid: 3 numbers\n"
    result = connector("check", "counter", "--source", "s", "--until", "13", "--json")
    assert (result.exit_code, json.loads(result.output)["error"]) == (1, "counter: 13 is not available; choose another number")
    file = tmp_path / "c.toml"
    file.write_text('connector = "counter"\nsource = "s"\nuntl = 3\n')
    assert connector("check", "-c", file).stderr.endswith("c.toml:3: untl: unknown key; did you mean until?\n")
    file.write_text('connector = "counter"\nsource = "s"\n')
    assert connector("check", "-c", file).output == f"{file} is valid: counter, 3 numbers\n"


def test_a_plugin_is_part_of_a_deployment(counter: Path, tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text('[connectors.numbers]\nconnector = "counter"\nsource = "numbers"\n')
    shown = result_of(headrace("run", file, "--dry-run", "--json").output)
    assert {"name": "numbers", "kind": "source", "what": "counter"} in shown["processes"]


def test_only_the_plugin_that_is_asked_for_is_imported(counter: Path) -> None:
    install(counter, "acme-other", {"other": "acme_other:CONNECTOR"}, acme_other=declared("other", "acme_impl"))
    assert {"counter", "other"} <= set(connector_names())
    assert find_connector("file") is CONNECTORS[0]
    assert not {"acme", "acme_other", "acme_impl"} & set(sys.modules)
    assert find_connector("counter") is not None
    catalog()
    assert "acme_impl" not in sys.modules


FAULTS = {
    "absent": ("acme_absent:CONNECTOR", "", "cannot be imported: ModuleNotFoundError: No module named 'acme_absent'"),
    "raises": ("faulty:CONNECTOR", "raise OSError('no\\nlicence')", "faulty:CONNECTOR cannot be imported: OSError: no"),
    "exits": ("faulty:CONNECTOR", "raise SystemExit(3)", "faulty:CONNECTOR cannot be imported: SystemExit: 3"),
    "text": ("faulty:CONNECTOR", "CONNECTOR = 'text'", "faulty:CONNECTOR is not a headrace.connectors.Connector"),
    "misnamed": ("faulty:CONNECTOR", declared("else", "x"), "is named else; give it the name of its entry point"),
    "modeless": (
        "faulty:CONNECTOR",
        "from headrace.connectors import Connector\n"
        "CONNECTOR = Connector('modeless', 'sink', replayable=None, mode=None, summary='x', module='x:y')",
        "ValueError: connector modeless: a sink has a mode, one of two-phase, batch-idempotent, at-least-once",
    ),
    "file": ("faulty:CONNECTOR", declared("file", "x"), "its name is taken by a bundled connector; one of them must be renamed"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_plugin_is_reported_by_name_and_breaks_nothing_else(counter: Path, name: str, tmp_path: Path) -> None:
    value, text, told = FAULTS[name]
    install(counter, "acme-faulty", {name: value}, faulty=text)
    listed = connector("list")
    assert listed.exit_code == 0
    (row,) = [line for line in listed.output.splitlines() if "acme-faulty" in line]
    assert row.startswith(f"{name} ")
    assert told in row
    document = result_of(connector("list", "--json").output)
    assert [(one["name"], one["origin"]) for one in document["unavailable"]] == [(name, "acme-faulty")]
    assert {"file", "counter"} <= {one["name"] for one in document["connectors"]}
    for words in (("run", "--help"), ("run", "counter", "--help"), ("describe", "file"), ("check", "counter", "--source", "s")):
        assert connector(*words).exit_code == 0
    schema = connector("schema")
    assert schema.exit_code == 0
    assert f"left out: connector {name} of acme-faulty cannot be used: " in schema.stderr
    completed = CliRunner().invoke(
        cli, [], env={"_HEADRACE_COMPLETE": "bash_complete", "COMP_WORDS": "headrace connector run ", "COMP_CWORD": "3"},
        prog_name="headrace",
    )  # fmt: skip
    assert "plain,counter" in completed.output
    if name != "file":
        file = tmp_path / "deploy.toml"
        file.write_text(f'[connectors.x]\nconnector = "{name}"\nsource = "s"\n')
        for failed in (connector("run", name), connector("describe", name), headrace("run", file, "--dry-run")):
            assert failed.exit_code == 3
            assert failed.stderr.startswith(f"Error: connector {name} of acme-faulty cannot be used: ")


BODIES = {
    "no required parameter source": IMPLEMENTATION.replace("    source: str =", "    stream: str ="),
    "CounterParameters.instance: the name is reserved": IMPLEMENTATION.replace("until: int", "instance: int"),
    "which a command line cannot express": IMPLEMENTATION.replace("until: int =", "until: list[list[int]] ="),
    "acme_impl:COUNTER is not an Implementation": "COUNTER = 3",
    "acme_impl:COUNTER cannot be imported: AttributeError": "",
    "are not a subclass of headrace.connectors.Parameters": IMPLEMENTATION.replace("Parameters(Parameters)", "Parameters"),
    "acme_impl:COUNTER cannot be imported: ZeroDivisionError": "1 / 0",
}


@pytest.mark.parametrize("told", BODIES)
def test_a_faulty_implementation_is_reported_when_it_is_needed(counter: Path, told: str) -> None:
    (counter / "acme_impl.py").write_text(BODIES[told])
    assert connector("list").exit_code == 0
    assert connector("schema").exit_code == 0
    for words in (("run", "counter"), ("describe", "counter"), ("check", "counter")):
        result = connector(*words)
        assert result.exit_code == 3
        assert result.stderr.startswith("Error: connector counter of acme-counter cannot be used: ")
        assert told in result.stderr


def test_a_missing_client_library_is_an_extra_of_the_plugin(path: Path) -> None:
    install(path, "acme-x", {"x": "acme:CONNECTOR"}, acme=declared("x", "acme_impl", "client"), acme_impl="import not_there")
    result = connector("describe", "x")
    assert (result.exit_code, result.stderr) == (
        3,
        "Error: connector x needs the module not_there: pip install 'acme-x[client]'\n",
    )


def test_the_first_of_two_plugins_of_a_name_has_it(counter: Path) -> None:
    install(counter, "acme-again", {"counter": "acme_again:CONNECTOR"}, acme_again=declared("counter", "acme_impl"))
    (second,) = catalog().unavailable
    assert str(second) == (
        "connector counter of acme-counter cannot be used: its name is taken by a connector of acme-again; "
        "one of them must be renamed or removed"
    )
    first = find_connector("counter")
    assert first is not None
    assert first.distribution == "acme-again"


def test_damaged_entry_points_of_others_do_no_harm(counter: Path) -> None:
    install(counter, "acme-damaged", {"damaged": "acme:CONNECTOR"})
    (counter / "acme_damaged-1.2.dist-info/entry_points.txt").write_bytes(b"[headrace.connectors]\nno equals sign\n\xff = x\n")
    assert "counter" in connector_names()
    assert connector("list").exit_code == 0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "a b"}, "the name 'a b' may contain letters, digits"),
        ({"kind": "both"}, "kind must be source or sink"),
        ({"replayable": None}, "a source has replayable, true or false, and no mode"),
        ({"kind": "sink"}, "a sink has a mode"),
        ({"summary": "two\nlines"}, "summary must be one line of text"),
    ],
)
def test_a_connector_that_contradicts_itself_cannot_be_made(changes: dict[str, object], told: str) -> None:
    good: dict[str, object] = {"name": "x", "kind": "source", "replayable": True, "mode": None, "summary": "x", "module": "x:y"}
    Connector(**good)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=told):
        Connector(**(good | changes))  # type: ignore[arg-type]


def test_an_error_shows_no_control_characters() -> None:
    error = ConnectorUnavailable("\x1b[31mred", "x", "y")
    assert str(error) == "connector '\\x1b[31mred' of x cannot be used: y"


def test_it_is_found_by_a_process_of_its_own(counter: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headrace.connectors_cli", "check", "counter", "--source", "s", "--until", "5"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={"PYTHONPATH": str(counter), "PATH": "/usr/bin:/bin"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "counter is valid: 5 numbers\n", "")
