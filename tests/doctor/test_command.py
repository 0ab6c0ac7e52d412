"""`headrace doctor` as people and programs see it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.goldens import expected

from headrace.cli import cli
from headrace.cli import doctor as command
from headrace.doctor import CHECKS, Check, Finding, Level, Site

FINDINGS = {
    "python": Finding(Level.OK, "Python 3.11.7 (/usr/bin/python3)"),
    "java": Finding(Level.FAILED, "Spark needs Java 17 or newer, found 11 in PATH", "run: sudo apt-get install openjdk-17"),
    "memory": Finding(Level.WARNING, "1.0 GiB available; Spark should have 2gb", "free memory"),
    "session": Finding(Level.SKIPPED, "Spark was not started", "to start it: headrace doctor --spark"),
    "gateway": Finding(Level.FAILED, "nothing listens at [::1]:7433", "start a gateway with headrace gateway", 1),
}


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(
        cli, ["doctor", *arguments], env={"HEADRACE_GATEWAY": None, "HEADRACE_TOKEN": None, "COLUMNS": None}
    )


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> list[Site]:
    """Has the command find the same on every machine; what it was asked to examine."""
    sites: list[Site] = []

    def examine(site: Site) -> list[tuple[Check, Finding]]:
        sites.append(site)
        return [(check, FINDINGS[check.name]) for check in CHECKS if check.name in FINDINGS]

    monkeypatch.setattr("headrace.doctor.examine", examine)
    return sites


def test_the_table_is_as_it_was(examined: list[Site]) -> None:
    result = doctor()
    assert result.exit_code == 3
    assert "".join(f"{line.rstrip()}\n" for line in result.output.splitlines()) == expected("doctor.txt", result.output)


def test_the_json_document_is_stable(examined: list[Site]) -> None:
    result = doctor("--json")
    assert result.exit_code == 3
    found = json.loads(result.output)
    assert found == json.loads(expected("doctor.json", json.dumps(found, indent=2)))


def test_the_help_lists_the_fields_of_the_document(examined: list[Site]) -> None:
    told = CliRunner().invoke(cli, ["doctor", "--help"]).output.partition("each check has")[2]
    names = [line.split()[0] for line in told.partition("Options:")[0].splitlines() if line.startswith("    ")]
    document = json.loads(CliRunner().invoke(cli, ["doctor", "--json"]).stdout)["result"]
    assert {tuple(one) for one in document["checks"]} == {tuple(names)}


def test_options_say_what_to_examine(examined: list[Site]) -> None:
    doctor()
    doctor("--spark", "--gateway", "far:1", "--token", "t", "-c", "a.toml", "-c", "b.toml:x")
    plain, told = examined
    assert (plain.gateway_named, plain.start_spark, plain.connectors) == (False, False, ())
    assert (told.gateway_named, told.start_spark, told.connectors) == (True, True, ("a.toml", "b.toml:x"))
    assert (told.connection.gateway, told.connection.token) == ("far:1", "t")


def test_a_gateway_in_the_environment_is_one_that_was_named(examined: list[Site]) -> None:
    CliRunner().invoke(cli, ["doctor"], env={"HEADRACE_GATEWAY": "far:1"})
    assert examined[0].gateway_named


@pytest.mark.parametrize(
    ("codes", "code"), [((), 0), ((1,), 1), ((1, 2), 2), ((3, 1, 2), 3)], ids=["none", "gateway", "file", "machine"]
)
def test_the_exit_code_is_the_highest_of_what_failed(codes: tuple[int, ...], code: int) -> None:
    failures = [Finding(Level.FAILED, "x", "y", one) for one in codes]
    assert command.exit_code([*failures, Finding(Level.WARNING, "x", "y"), Finding(Level.OK, "x")]) == code


def test_a_real_pass_examines_everything_and_gives_every_failure_its_fix(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('connector = "file"\npath = "*.txt"\nsource = "lines"\n')
    call = [sys.executable, "-m", "headrace.cli", "doctor", "--json", "--gateway", "127.0.0.1:1", "-c", str(file)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=300, check=False)
    found = json.loads(done.stdout)
    assert done.stderr == ""
    assert (found["command"], found["ok"]) == ("doctor", False)
    checks = {check["check"]: check for check in found["result"]["checks"]}
    assert list(checks) == [check.name for check in CHECKS]
    assert all(set(check) == {"check", "level", "finding", "fix"} for check in checks.values())
    assert all(check["fix"] for check in checks.values() if check["level"] in ("failed", "warning"))
    assert checks["gateway"]["level"] == "failed"
    assert checks["session"]["level"] == "skipped"
    assert checks["connectors"]["finding"] == f"{file}: file, 0 streams now, waiting for more"
    assert done.returncode in (1, 3)
    assert "gateway" in found["error"]
