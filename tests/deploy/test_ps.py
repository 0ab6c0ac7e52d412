"""`headrace ps`: the processes of a deployment, by its supervisor and by the gateway, and the ends of their logs."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.json_shape import result_of
from tests.deploy.supervisors import SLEEPS, Probe, Watched, plan, process_of, runs, stop
from tests.deploy.test_link import served
from tests.gateway.test_rights import token

from headrace.cli import cli
from headrace.deploy import Kind, Known, Status, backoff, last_lines
from headrace.deploy import link as link_module
from headrace.deploy import supervisor as supervisor_module
from headrace.deploy.control import PROCESSES_IN_ANSWER
from headrace.processes import memory_of_sessions
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.terminal.contexts import Context, changing_contexts

FAILS = "echo 'Error: no such table' >&2; exit 1"


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for long, but what has failed twice."""
    monkeypatch.setattr(backoff, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(supervisor_module, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("headrace.deploy.processes._ASK_EVERY_S", 0.01)
    monkeypatch.setattr(link_module, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(link_module, "MIN_BETWEEN_REPORTS_S", 0.0)


def configured(tmp_path: Path) -> Path:
    """The file of a deployment in the folder of `plan`."""
    file = tmp_path / "deploy.toml"
    file.write_text(f'folder = "{tmp_path / "run"}"\n')
    return file


class Asking:
    """Runs `headrace ps` while a deployment runs, call after call on a thread."""

    def __init__(self, *calls: list[str]) -> None:
        self._calls = calls
        self._made: list[subprocess.CompletedProcess[str]] = []
        self._thread = threading.Thread(target=self._make)

    def begin(self, _: Status) -> None:
        self._thread.start()

    def done(self, _: Status) -> bool:
        return not self._thread.is_alive()

    def results(self) -> list[subprocess.CompletedProcess[str]]:
        assert len(self._made) == len(self._calls)
        return self._made

    def _make(self) -> None:
        for call in self._calls:
            command = [sys.executable, "-m", "headrace.cli", "ps", *call]
            self._made.append(subprocess.run(command, capture_output=True, text=True, check=False, timeout=120))


def test_ps_lists_the_processes_of_a_deployment_on_this_machine(tmp_path: Path) -> None:
    file = configured(tmp_path)
    asking = Asking(
        ["--deployment", str(file), "--json"],
        ["--deployment", str(file)],
        ["--deployment", str(file), "--log", "sink", "--lines", "1", "--json"],
        ["--deployment", str(file), "--log", "another"],
        ["--deployment", str(file), "--log", "supervisor", "--json"],
        ["--deployment", str(file), "--token", "t"],
    )
    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS), sink=(Kind.SINK, FAILS)))
    watched.when(lambda status: process_of(status, "sink").restarts >= 3 and runs("source")(status), asking.begin)
    watched.when(asking.done, stop)
    watched.run()
    listed, table, log, unknown, own, invalid = asking.results()
    (deployment,) = result_of(listed.stdout)["deployments"]
    found = {process["name"]: process for process in deployment["processes"]}
    assert (deployment["deployment"], set(found)) == ("deploy.toml", {"gateway", "source", "sink"})
    assert found["source"]["state"] == "runs"
    assert (found["source"]["kind"], found["source"]["restarts"], found["source"]["reason"]) == ("connector", 0, None)
    assert found["source"]["pid"] > 0
    assert found["source"]["version"]
    assert found["sink"]["restarts"] >= 3
    assert "no such table" in found["sink"]["reason"]
    assert re.search(r"sink: .+ ago \(.*\d\d:\d\d:\d\d\): ended with exit code 1: no such table", table.stdout)
    assert found["sink"]["reason_age_ms"] is not None
    assert result_of(log.stdout)["lines"] == ["Error: no such table"]
    assert any("sink fails: ended with exit code 1: no such table" in line for line in result_of(own.stdout)["lines"])
    assert [one.returncode for one in (listed, table, log, unknown, own, invalid)] == [0, 0, 0, 2, 0, 2]
    # It can be read once the supervisor has ended.
    ended = CliRunner().invoke(cli, ["ps", "--deployment", str(file), "--log", "supervisor", "--lines", "1"])
    assert ended.output.endswith("INFO: deploy.toml stopped\n")


@pytest.mark.parametrize("file", ["x = [", None], ids=["invalid", "gone"])
def test_a_deployment_whose_file_has_become_invalid_or_is_gone_is_still_shown(tmp_path: Path, file: str | None) -> None:
    asking = Asking(["--deployment", str(tmp_path / "deploy.toml"), "--json"])
    planned = replace(plan(tmp_path, source=(Kind.SOURCE, SLEEPS)), folder=tmp_path / "deploy.run")
    if file is not None:
        (tmp_path / "deploy.toml").write_text(file)
    watched = Watched(planned)
    watched.when(runs("source"), asking.begin)
    watched.when(asking.done, stop)
    watched.run()
    (listed,) = asking.results()
    (deployment,) = result_of(listed.stdout)["deployments"]
    assert {process["name"] for process in deployment["processes"]} == {"gateway", "source"}
    ended = CliRunner().invoke(cli, ["ps", "--deployment", str(tmp_path / "deploy.toml")])
    assert (ended.exit_code, "deploy.toml" in ended.output) == (2, True)


def test_ps_by_the_gateway_needs_the_rights_and_shows_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CONTEXTS", str(tmp_path / "contexts.toml"))
    (tmp_path / "token").write_text("operator")
    tokens = [token("deployment", supervise=True), token("reader", admin=True), token("operator", admin=True, control=True)]
    with served(*tokens) as gateway:
        with changing_contexts() as changing:
            changing.put("prod", Context(gateway.address, tmp_path / "token"))

        def call(caller: str, *options: str) -> list[str]:
            return ["--gateway", gateway.address, "--token", caller, *options]

        asking = Asking(
            call("reader", "--json"),
            call("reader", "--log", "sink"),
            call("operator", "--log", "sink", "--lines", "1"),
            call("operator", "--log", "supervisor"),
            ["--context", "prod", "--log", "sink", "--lines", "1"],
            ["--log", "sink", "--lines", "1"],
            ["--deployment", str(tmp_path / "none.toml")],
            call("deployment"),
            call("reader", "--deployment", "other.toml"),
        )

        def is_known(_: Status) -> bool:
            deployments = gateway.gateway.deployments.by_name.values()
            return any("no such table" in one.processes["sink"].state.reason for one in deployments if one.processes)

        watched = Watched(plan(tmp_path, app=(Kind.PIPELINE, SLEEPS), sink=(Kind.SINK, FAILS)), reach=gateway.reach("deployment"))
        watched.when(lambda status: is_known(status) and runs("app")(status), asking.begin).when(asking.done, stop)
        watched.run()
    listed, refused, log, own, by_context, in_use, here, forbidden, other = asking.results()
    (deployment,) = result_of(listed.stdout)["deployments"]
    assert {process["name"]: process["kind"] for process in deployment["processes"]} == {
        "gateway": "gateway",
        "app": "application",
        "sink": "connector",
    }
    assert log.stdout == by_context.stdout == in_use.stdout == "Error: no such table\n"
    assert "app runs" in own.stdout
    assert [one.returncode for one in (listed, refused, log, by_context, in_use, here, forbidden, other)] == [
        0,
        1,
        0,
        0,
        0,
        2,
        1,
        2,
    ]
    assert "control" in refused.stderr


def test_the_supervisor_tells_the_gateway_of_each_state_of_a_process(tmp_path: Path) -> None:
    """From a start without a connection to the end."""
    seen: list[str] = []
    probe = Probe(Known())

    def states(state: str) -> Callable[[Status], bool]:
        def is_told(_: Status) -> bool:
            for one in gateway.gateway.deployments.by_name.values():
                kind = one.processes["app"].state.state if one.processes else 0
                name = pb.ProcessStateKind.Name(kind).removeprefix("PROCESS_STATE_KIND_").lower()
                seen.extend([name] if name != (seen or [""])[-1] else [])
            return seen[-1:] == [state]

        return is_told

    def connect(_: Status) -> None:
        probe.known = Known(connected=frozenset({"app"}))

    with served() as gateway:
        watched = Watched(plan(tmp_path, app=(Kind.PIPELINE, SLEEPS)), probe=probe, reach=gateway.reach())
        watched.when(states("starts"), connect).when(states("runs"), lambda status: os.kill(pid_of(status), 9))
        watched.when(lambda status: process_of(status, "app").restarts == 1 and states("runs")(status), stop)
        watched.run()
    assert seen[-1] == "runs"


def pid_of(status: Status) -> int:
    pid = process_of(status, "app").pid
    assert pid is not None
    return pid


def test_a_large_deployment_is_listed_in_several_answers(tmp_path: Path) -> None:
    file = configured(tmp_path)
    # They wait for a gateway that never listens.
    others = {f"sink-{number}": (Kind.SINK, SLEEPS) for number in range(2 * PROCESSES_IN_ANSWER)}
    asking = Asking(["--deployment", str(file), "--json"])
    watched = Watched(plan(tmp_path, SLEEPS, **others))
    watched.when(lambda status: len(watched.statuses) > 1, asking.begin).when(asking.done, stop)
    watched.run()
    (listed,) = asking.results()
    (deployment,) = result_of(listed.stdout)["deployments"]
    assert {process["name"] for process in deployment["processes"]} == {"gateway", *others}
    assert {process["state"] for process in deployment["processes"] if process["name"] != "gateway"} == {"waits"}


def test_a_deployment_that_does_not_run_is_told(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["ps", "--deployment", str(configured(tmp_path))])
    assert (result.exit_code, "no deployment runs in" in result.output) == (1, True)


def test_the_last_lines_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    assert last_lines(log, 5) == []
    log.write_text("one\ntwo\nthree\n")
    assert last_lines(log, 2) == ["two", "three"]
    log.write_text("".join(f"{number:099}\n" for number in range(5_000)))
    kept = last_lines(log, 10_000)
    assert kept[-1] == f"{4_999:099}"
    assert all(len(line) == 99 for line in kept)
    assert len(kept) <= (256 << 10) // 100
    os.mkfifo(tmp_path / "fifo")
    for none in (tmp_path, tmp_path / "fifo"):
        with pytest.raises(OSError):  # noqa: PT011
            last_lines(none, 5)


def test_the_memory_of_a_session_is_that_of_its_processes() -> None:
    own = os.getsid(0)
    assert memory_of_sessions({own})[own] > 1 << 20
    assert memory_of_sessions({2**22 + 1}) == {2**22 + 1: 0}
    assert memory_of_sessions(set()) == {}


@pytest.mark.parametrize("command", [["ps"], ["ps", "--log", "orders"], ["restart", "orders"]])
def test_a_folder_without_a_deployment_is_told_with_what_to_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 2
    assert "there is no deploy.toml: name the deployment with --deployment, or its gateway with --gateway" in result.stderr
