"""Restarts of a connector by a command, over a socket of the running deployment."""

import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.absent import absent
from tests.deploy.supervisors import SLEEPS, Probe, Watched, plan, process_of, runs, stop

from headrace.cli import cli
from headrace.deploy import CannotRestart, Ending, Kind, Known, NotRunning, Status, ask_restart, backoff
from headrace.deploy import control as control_module
from headrace.deploy import process as process_module
from headrace.deploy import supervisor as supervisor_module
from headrace.deploy.patient_disk import PatientDisk

WITHIN_S = 60.0


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for long."""
    monkeypatch.setattr(backoff, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(supervisor_module, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("headrace.deploy.processes._ASK_EVERY_S", 0.01)


class Callers:
    """Callers of the socket, each on a thread, while the supervisor runs on the main thread of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "run"
        self.calls: list[Future[Any]] = []
        self._threads = ThreadPoolExecutor()

    def call(self, function: Callable[[], Any]) -> Callable[[Status], None]:
        """A step that calls a function on a thread."""
        return lambda _: self.calls.append(self._threads.submit(function))

    def restart(self, name: str) -> Callable[[Status], None]:
        return self.call(partial(ask_restart, self.folder, name, WITHIN_S))

    def answered(self, number: int) -> Callable[[Status], bool]:
        """Whether this many calls have ended."""
        return lambda _: len(self.calls) >= number and all(call.done() for call in self.calls[:number])

    def close(self) -> None:
        self._threads.shutdown()


@pytest.fixture
def callers(tmp_path: Path) -> Iterator[Callers]:
    made = Callers(tmp_path)
    yield made
    made.close()


def pids_of(watched: Watched, name: str) -> list[int]:
    """The process ids that a process had, in order."""
    found = [process_of(status, name).pid for status in watched.statuses]
    return list(dict.fromkeys(pid for pid in found if pid is not None))


def test_a_connector_ends_in_order_and_starts_at_once_and_nothing_else_does(tmp_path: Path, callers: Callers) -> None:
    # Before its handler is there, the signal itself would end it.
    script = "trap 'echo sink >> ended; kill $!; exit 0' TERM\ntouch ready\nsleep 600 &\nwait"
    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS), sink=(Kind.SINK, script)))
    watched.when(
        lambda status: runs("gateway", "source", "sink")(status) and (tmp_path / "ready").exists(), callers.restart("sink")
    )
    watched.when(callers.answered(1), stop)
    assert watched.run() == Ending(0, "stopped")

    result = callers.calls[0].result()
    first, second = pids_of(watched, "sink")
    assert result == {
        "name": "sink",
        "state": "runs",
        "pid": second,
        "stopped_pid": first,
        "stopped_exit_code": 0,
        "duration_ms": result["duration_ms"],
    }
    assert (tmp_path / "ended").read_text().startswith("sink\n")
    assert [len(pids_of(watched, name)) for name in ("gateway", "source")] == [1, 1]
    assert {process_of(status, "sink").reason for status in watched.statuses} == {None}
    assert watched.states("sink") == ["waits", "starts", "runs", "stops", "starts", "runs", "stops", "ended"]
    (told,) = watched.told
    assert told.startswith("change made: restart of sink, by ")
    assert f"(uid {os.getuid()}, pid {os.getpid()})" in told
    assert not (tmp_path / "run" / control_module.SOCKET_FILE).exists()


def test_two_restarts_at_once_are_one_and_both_are_answered(tmp_path: Path, callers: Callers) -> None:
    # It ends once both requests are known.
    script = "trap 'while [ ! -e both ]; do sleep 0.01; done; kill $!; exit 0' TERM\ntouch ready\nsleep 600 &\nwait"
    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, script)))

    def both(status: Status) -> None:
        callers.restart("source")(status)
        callers.restart("source")(status)

    watched.when(lambda status: runs("gateway", "source")(status) and (tmp_path / "ready").exists(), both)
    watched.when(lambda _: len(watched.told) == 2, lambda _: (tmp_path / "both").touch())
    watched.when(callers.answered(2), stop)
    watched.run()
    first, second = (call.result() for call in callers.calls)
    assert first["pid"] == second["pid"]
    assert len(pids_of(watched, "source")) == 2


def test_a_second_signal_does_not_cut_off_a_connector_that_drains(tmp_path: Path, callers: Callers) -> None:
    script = "trap 'echo told >> ended' TERM\ntouch ready\nwhile [ ! -e enough ]; do sleep 0.05; done"
    watched = Watched(plan(tmp_path, sink=(Kind.SINK, script)))
    watched.when(lambda status: runs("gateway", "sink")(status) and (tmp_path / "ready").exists(), callers.restart("sink"))
    watched.when(lambda _: (tmp_path / "ended").exists(), stop)
    watched.when(lambda status: status.condition == "stops", lambda _: (tmp_path / "enough").touch())
    assert watched.run() == Ending(0, "stopped")
    # The deployment stopped while the connector ended: one signal, and it is not started again.
    assert (tmp_path / "ended").read_text() == "told\n"
    assert len(pids_of(watched, "sink")) == 1
    with pytest.raises(CannotRestart, match=r"the deployment (is stopping|has ended)"):
        callers.calls[0].result()


def test_a_connector_that_does_not_end_is_killed(tmp_path: Path, callers: Callers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "STOPS_WITHIN_S", 0.1)
    deaf = "if [ -e deaf ]; then exec sleep 600; fi\ntrap '' TERM\ntouch deaf; while :; do sleep 600; done"
    watched = Watched(plan(tmp_path, sink=(Kind.SINK, deaf)))
    watched.when(lambda status: runs("gateway", "sink")(status) and (tmp_path / "deaf").exists(), callers.restart("sink"))
    watched.when(callers.answered(1), stop)
    watched.run()
    assert callers.calls[0].result()["stopped_exit_code"] == -9


def test_a_connector_that_waits_after_a_failure_starts_at_once(
    tmp_path: Path, callers: Callers, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than the test: only the command starts it again.
    monkeypatch.setattr(backoff, "FIRST_WAIT_S", 10_000.0)
    monkeypatch.setattr(backoff, "MAX_WAIT_S", 10_000.0)
    watched = Watched(plan(tmp_path, sink=(Kind.SINK, f"if [ ! -e failed ]; then touch failed; exit 1; fi\n{SLEEPS}")))
    watched.when(lambda status: process_of(status, "sink").reason is not None, callers.restart("sink"))
    watched.when(callers.answered(1), stop)
    watched.run()
    result = callers.calls[0].result()
    assert (result["stopped_pid"], result["stopped_exit_code"], result["state"]) == (None, None, "runs")


def test_a_connector_that_fails_after_its_restart_is_told_with_its_error(tmp_path: Path, callers: Callers) -> None:
    script = f"if [ -e ran ]; then echo 'Error: the disk is full'; exit 1; fi\ntouch ran; {SLEEPS}"
    probe = Probe()
    watched = Watched(plan(tmp_path, sink=(Kind.SINK, script)), probe=probe)

    def restart(status: Status) -> None:
        # Its session is gone, and it does not get another one.
        probe.known = Known()
        callers.restart("sink")(status)

    watched.when(lambda status: runs("gateway", "sink")(status) and (tmp_path / "ran").exists(), restart)
    watched.when(callers.answered(1), stop)
    watched.run()
    with pytest.raises(CannotRestart, match=r"sink was restarted, and has failed: .*the disk is full") as caught:
        callers.calls[0].result()
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("gateway", "gateway is not restarted alone: end its process, which headrace ps --json shows, with SIGTERM"),
        ("sonk", "the deployment has no process sonk; it has app, sink; did you mean sink\\?"),
    ],
)
def test_neither_the_gateway_nor_what_is_unknown_is_restarted_by_it(
    tmp_path: Path, callers: Callers, name: str, error: str
) -> None:
    watched = Watched(plan(tmp_path, app=(Kind.PIPELINE, SLEEPS), sink=(Kind.SINK, SLEEPS)))
    watched.when(runs("gateway", "app", "sink"), callers.restart(name))
    watched.when(callers.answered(1), stop)
    watched.run()
    with pytest.raises(CannotRestart, match=f"^{error}") as caught:
        callers.calls[0].result()
    assert caught.value.exit_code == 2
    assert [len(pids_of(watched, one)) for one in ("gateway", "app", "sink")] == [1, 1, 1]
    assert watched.told[0].startswith(f"change refused: restart of {name}, by ")


@pytest.mark.parametrize(("kind", "is_told"), [(Kind.PIPELINE, True), (Kind.QUERY, True), (Kind.QUERY, False)])
def test_an_application_and_a_program_end_in_order_and_start_at_once_and_nothing_else_does(
    tmp_path: Path, callers: Callers, kind: Kind, is_told: bool
) -> None:
    """Nobody can tell whether a program is connected that names no pipelines."""
    script = "trap 'echo app >> ended; kill $!; exit 0' TERM\ntouch ready\nsleep 600 &\nwait"
    planned = plan(tmp_path, source=(Kind.SOURCE, SLEEPS), app=(kind, script), sink=(Kind.SINK, SLEEPS))
    others = tuple(
        replace(one, pipelines=("totals",) if is_told else (), is_connected=one.is_connected if is_told else lambda _: None)
        if one.name == "app"
        else one
        for one in planned.others
    )
    watched = Watched(replace(planned, others=others))
    watched.when(lambda status: runs("gateway", "app")(status) and (tmp_path / "ready").exists(), callers.restart("app"))
    watched.when(callers.answered(1), stop)
    assert watched.run() == Ending(0, "stopped")
    result = callers.calls[0].result()
    first, second = pids_of(watched, "app")
    assert (result["state"], result["pid"], result["stopped_pid"], result["stopped_exit_code"]) == ("runs", second, first, 0)
    assert [len(pids_of(watched, name)) for name in ("gateway", "source", "sink")] == [1, 1, 1]


def test_a_source_that_has_reached_its_end_is_not_started_again(tmp_path: Path, callers: Callers) -> None:
    watched = Watched(plan(tmp_path, done=(Kind.SOURCE, "exit 0"), source=(Kind.SOURCE, SLEEPS)))
    watched.when(lambda status: process_of(status, "done").state == "ended", callers.restart("done"))
    watched.when(callers.answered(1), stop)
    watched.run()
    with pytest.raises(CannotRestart, match="done has reached its end") as caught:
        callers.calls[0].result()
    assert caught.value.exit_code == 1


@contextlib.contextmanager
def listening(folder: Path) -> Iterator[control_module.ControlSocket]:
    """A socket without a supervisor: the test says when it looks at what has arrived."""
    with contextlib.closing(PatientDisk()) as disk, control_module.ControlSocket(folder, pytest.fail, disk) as control:
        yield control


@contextlib.contextmanager
def caller(folder: Path, sends: bytes) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(WITHIN_S)
        with control_module.address_in(folder) as address:
            connection.connect(address)
        connection.sendall(sends)
        yield connection


def answer_to(connection: socket.socket) -> dict[str, Any]:
    with connection.makefile("rb") as answers:
        answer: dict[str, Any] = json.loads(answers.readline())
        return answer


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"x" * 5000, "the request has more than 4096 bytes"),
        (b"restart sink\n", "the request must be a line like"),
        (b'{"command": "stop", "name": "sink"}\n', "the request must be a line like"),
        (b'{"command": "restart"}\n', "the request must be a line like"),
        (b"[[1\n", "the request must be a line like"),
        (b"[" * 4000 + b"\n", "the request must be a line like"),
    ],
)
def test_what_is_no_request_is_refused(tmp_path: Path, line: bytes, error: str) -> None:
    with listening(tmp_path) as control, caller(tmp_path, line) as connection:
        assert control.requests() == []
        answer = answer_to(connection)
        assert (answer["ok"], answer["invalid"], answer["error"].startswith(error)) == (False, True, True)


def test_who_says_nothing_is_cut_off_and_keeps_nobody_from_being_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(tmp_path) as control, caller(tmp_path, b'{"comm') as slow, caller(tmp_path, b""):
        with caller(tmp_path, b'{"command": "restart", "name": "sink"}\n'):
            assert [request.name for request in control.requests()] == ["sink"]
        slow.sendall(b'and": "restart", "name": "slow"}\n')
        assert [request.name for request in control.requests()] == ["slow"]
        monkeypatch.setattr(control_module, "SPEAK_WITHIN_S", -1.0)
        with caller(tmp_path, b"{") as late:
            assert control.requests() == []
            assert control.requests() == []
            assert answer_to(late)["error"].startswith("no request has arrived within")


def test_requests_that_are_not_answered_are_bounded(tmp_path: Path) -> None:
    line = b'{"command": "restart", "name": "sink"}\n'
    with listening(tmp_path) as control, contextlib.ExitStack() as stack:
        connections = [stack.enter_context(caller(tmp_path, line)) for _ in range(control_module.MAX_REQUESTS + 3)]
        first = control.requests()
        assert len(first) == control_module.MAX_REQUESTS
        assert control.requests() == []
        for request in first:
            request.answer({"ok": True})
        second = control.requests()
        assert len(second) == 3
        assert [answer_to(connection) for connection in connections[:-3]] == [{"ok": True}] * control_module.MAX_REQUESTS
    # The supervisor answers every open request before it ends.
    assert not any(request.is_open for request in second)


def test_other_users_may_not_use_it(tmp_path: Path, callers: Callers) -> None:
    if os.geteuid() != 0:
        absent("only root can be another user")
    program = (
        "import os, socket, sys\n"
        "connection = socket.socket(socket.AF_UNIX)\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "try:\n    connection.connect(sys.argv[1])\nexcept PermissionError:\n    sys.exit('no permission')\n"
        'connection.sendall(b\'{"command": "restart", "name": "sink"}\\n\')\n'
        "print(connection.makefile().readline())\n"
    )
    path = tmp_path / "run" / control_module.SOCKET_FILE
    # Relative to the folder, since others may not enter a folder of pytest.
    command = [sys.executable, "-c", program, control_module.SOCKET_FILE]
    call = partial(subprocess.run, command, cwd=path.parent, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    watched = Watched(plan(tmp_path, sink=(Kind.SINK, SLEEPS)))
    modes = []

    def as_it_is(status: Status) -> None:
        modes.append(stat.S_IMODE(path.stat().st_mode))
        callers.call(call)(status)

    def open_to_all(status: Status) -> None:
        path.chmod(0o666)
        callers.call(call)(status)

    watched.when(runs("gateway", "sink"), as_it_is)
    watched.when(callers.answered(1), open_to_all)
    watched.when(callers.answered(2), stop)
    watched.run()
    assert modes == [0o600]
    assert callers.calls[0].result().stderr.strip() == "no permission"
    assert json.loads(callers.calls[1].result().stdout)["error"].startswith("only the user who runs the deployment, and root")
    assert len(pids_of(watched, "sink")) == 1


def test_a_deployment_that_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(NotRunning, match=f"no deployment runs in {tmp_path / 'run'}"):
        ask_restart(tmp_path / "run", "sink", WITHIN_S)
    # A supervisor that was killed leaves its socket.
    (tmp_path / "run").mkdir()
    with socket.socket(socket.AF_UNIX) as left, control_module.address_in(tmp_path / "run") as address:
        left.bind(address)
    with pytest.raises(NotRunning):
        ask_restart(tmp_path / "run", "sink", WITHIN_S)
    watched = Watched(plan(tmp_path, sink=(Kind.SINK, SLEEPS)))
    watched.when(runs("gateway", "sink"), stop)
    assert watched.run().exit_code == 0


def test_the_command(tmp_path: Path, callers: Callers) -> None:
    # The command reads nothing but the folder: the variable is set for the supervisor only.
    file = tmp_path / "orders.toml"
    file.write_text('folder = "run"\n[connectors.sink]\ntoken = "${ONLY_THE_SUPERVISOR_HAS_IT}"\n')

    def restart(*arguments: str) -> Callable[[Status], None]:
        return callers.call(lambda: CliRunner().invoke(cli, ["restart", *arguments, "--deployment", str(file)]))

    watched = Watched(plan(tmp_path, sink=(Kind.SINK, SLEEPS)))
    for number, arguments in enumerate([("sink",), ("sink", "--json"), ("sonk", "--json"), ("sonk",)]):
        watched.when(callers.answered(number), lambda _: None).when(runs("gateway", "sink"), restart(*arguments))
    watched.when(callers.answered(4), stop)
    watched.run()
    told, document, unknown, unknown_told = (call.result() for call in callers.calls)
    first, second, third = pids_of(watched, "sink")
    assert (told.exit_code, document.exit_code, unknown.exit_code, unknown_told.exit_code) == (0, 0, 2, 2)
    # The line breaks where numbers of processes have many digits.
    line = " ".join(told.output.split())
    assert line.startswith(f"sink is restarted: process {first} ended with exit code -15, process {second} runs (")
    assert line.endswith(" s), in orders.toml")
    answer = json.loads(document.output)
    assert (answer["command"], answer["ok"], answer["error"], answer["result"]["pid"]) == ("restart", True, None, third)
    assert json.loads(unknown.output)["error"] == "the deployment has no process sonk; it has sink; did you mean sink?"
    assert unknown_told.output == "Error: the deployment has no process sonk; it has sink; did you mean sink?\n"
    after = CliRunner().invoke(cli, ["restart", "sink", "--deployment", str(file)])
    assert (after.exit_code, after.output.startswith("Error: no deployment runs in ")) == (1, True)
    missing = CliRunner().invoke(cli, ["restart", "sink", "--deployment", str(tmp_path / "none.toml")])
    assert (missing.exit_code, "none.toml: name the deployment" in missing.output) == (2, True)
