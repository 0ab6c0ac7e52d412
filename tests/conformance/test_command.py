"""The command line: what it prints, its files, and its exit codes."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest
from tests.cli.json_shape import result_of
from tests.conformance.kit import ROOT, be_patient
from tests.conformance.test_sources import COMMON, command

from headrace.conformance.sources import SOURCE_CHECKS

SOURCE = command("replayable")
DEADLINE_S = 120.0


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    """Runs `headrace-conformance`."""
    call = [sys.executable, "-m", "headrace.conformance", *words]
    return subprocess.run(call, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def spec(tmp_path: Path, text: str = "") -> str:
    """A specification file."""
    path = tmp_path / "source.toml"
    path.write_text(f"{COMMON}\n{text}")
    return str(path)


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def source(
    tmp_path: Path, only: Sequence[str], *options: str, fault: str = "none", text: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Runs the kit on the source of this folder."""
    words = ["source", "--spec", str(be_patient(Path(spec(tmp_path, text)))), *(f"--only={name}" for name in only), *options]
    return run(*words, "--", *command("replayable", fault))


def test_a_line_for_each_check_and_a_summary(tmp_path: Path) -> None:
    done = source(tmp_path, ["token", "kind", "starts"])

    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["SKIP", "starts", "not", "declared:", "chooses_start"]
    assert sorted(line.split()[:2] for line in lines[1:3]) == [["PASS", "kind"], ["PASS", "token"]]
    assert lines[-1] == "2 passed, 0 failed, 1 skipped (not declared)"


def test_a_failure_shows_the_rule_its_link_and_what_was_said_on_the_wire(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    done = source(tmp_path, ["token", "kind"], f"--junit={report}", fault="token")

    assert done.returncode == 1
    assert "FAIL  token" in done.stdout
    assert "It does not send its token as `authorization: Bearer TOKEN` with the call." in done.stdout
    assert "SES-9: https://github.com/headrace/headrace/blob/main/docs/reference/protocol.md#ses-9" in done.stdout
    assert "connector -> gateway  hello" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 passed, 1 failed"
    suite = ElementTree.parse(report).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "0")
    failures = {case.get("name"): case.find("failure") for case in suite}
    assert failures["kind"] is None
    assert failures["token"] is not None


def test_json_is_one_document(tmp_path: Path) -> None:
    done = source(tmp_path, ["token"], "--json", fault="token")

    document = json.loads(done.stdout)
    assert (document["command"], document["ok"], document["error"]) == ("conformance source", False, "failed: token")
    (result,) = document["result"]["checks"]
    assert result["outcome"] == "failed"
    assert result["rules"][0]["rule"] == "SES-9"
    assert result["trace"]


def test_a_known_failure_does_not_fail_the_run_and_one_that_passes_does(tmp_path: Path) -> None:
    known = source(tmp_path, ["token"], fault="token", text="known_failures = ['token']")
    assert known.returncode == 0, known.stdout
    assert known.stdout.splitlines()[-1] == "0 passed, 0 failed, 1 known failures"

    mended = source(tmp_path, ["token"], text="known_failures = ['token']")
    assert mended.returncode == 1
    assert "take it out of known_failures" in mended.stdout


def test_checks_are_listed() -> None:
    listed = result_of(run("source", "--list", "--json").stdout)["checks"]
    assert [check["check"] for check in listed] == [check.name for check in SOURCE_CHECKS]
    shown = run("source", "--list").stdout
    # In a narrow terminal, each has lines of its own below its name.
    assert {check.name for check in SOURCE_CHECKS} <= {line.split()[0] for line in shown.splitlines() if line.strip()}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["source"], 2, "name the command that starts the connector, after --"),
        (["source", "--only=tokn", "--", "true"], 2, "there is no check tokn; did you mean token?"),
        (["source", "--only=token", "--", "./no-such-program"], 3, "cannot start ./no-such-program: No such file or directory"),
        (["source", "--only=token", "--", str(ROOT / "README.md")], 3, "Permission denied"),
    ],
)
def test_usage(words: list[str], code: int, said: str) -> None:
    done = run(*words)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mesages = 3", "source.toml:1: mesages: unknown key; did you mean messages?"),
        ("kind = 'other'", "source.toml:1: kind: must be 'replayable', 'redelivering' or 'resumable'"),
        ("messages = -1", "source.toml:1: messages: must be greater than or equal to 0"),
        ("known_failures = ['tokn']", "there is no check tokn"),
        ("setup = 'echo no space >&2; exit 4'", "setup: exit code 4: echo no space >&2; exit 4: no space"),
        ("[deadlines]\nquiet = 0", "source.toml:2: deadlines.quiet: must be greater than 0"),
    ],
)
def test_an_invalid_specification_is_named_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "source.toml"
    path.write_text(text)
    done = run("source", "--spec", str(path), "--only=token", "--", *SOURCE)
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("stubborn", ["the connector", "a command of the specification"])
def test_a_kit_that_is_stopped_kills_what_it_has_started(number: signal.Signals, stubborn: str, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("trap '' TERM HUP INT; sleep 3600 & echo $$ $! > pids; mv pids started; wait")
    shell = f"cd {tmp_path}; exec sh ./program"
    path = tmp_path / "source.toml"
    path.write_text("" if stubborn == "the connector" else f'setup = "{shell}"')
    words = [sys.executable, "-m", "headrace.conformance", "source", "--spec", str(be_patient(path)), "--only=token", "--json"]
    words += ["--", "sh", "-c", shell]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, process_group=0) as kit:
        started = tmp_path / "started"
        wait_until(started.exists, "the kit has started it")
        kit.send_signal(number)
        assert kit.stdout is not None
        document = json.loads(kit.stdout.read())
        assert kit.wait(DEADLINE_S) == 128 + number
    assert document["error"] == f"{number.name} has stopped the run; the connector is killed"
    pids = [int(pid) for pid in started.read_text().split()]
    wait_until(lambda: not any(is_alive(pid) for pid in pids), "all processes are gone")


def test_a_connector_that_ends_at_once_fails_and_its_log_is_shown() -> None:
    done = run("source", "--only=token", "--", "sh", "-c", "echo no such folder >&2; exit 7")
    assert done.returncode == 1
    assert "the connector ended with exit code 7, before this: Hello" in done.stdout
    assert "        no such folder" in done.stdout
