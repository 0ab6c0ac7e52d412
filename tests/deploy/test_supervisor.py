"""The supervisor over real processes: started, killed, failing, stopped."""

import fcntl
import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.deploy.supervisors import LISTENS, SLEEPS, Probe, Watched, begun, kill, notes, plan, process_of, runs, stop

from headrace.deploy import AlreadyRuns, CannotRun, Ending, Kind, Known, Status, backoff
from headrace.deploy import lock as lock_module
from headrace.deploy import supervisor as supervisor_module


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for long."""
    monkeypatch.setattr(backoff, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(supervisor_module, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("headrace.deploy.processes._ASK_EVERY_S", 0.01)


def failing_once(then: str, how: str) -> str:
    """A script that ends at its first start."""
    return f"if [ ! -e failed ]; then touch failed; {how}; fi\n{then}"


def gone(watched: Watched) -> bool:
    """Whether nothing runs that ever ran."""
    pids = {process.pid for status in watched.statuses for process in status.processes if process.pid is not None}
    return all(not Path(f"/proc/{pid}").exists() for pid in pids)


# Starting


def test_the_others_are_started_once_the_gateway_listens(tmp_path: Path) -> None:
    watched = Watched(plan(tmp_path, f"while [ ! -e go ]; do sleep 0.01; done\n{LISTENS}", source=(Kind.SOURCE, SLEEPS)))
    watched.when(lambda status: process_of(status, "gateway").pid is not None, lambda _: (tmp_path / "go").touch())
    watched.when(runs("gateway", "source"), stop)
    assert watched.run() == Ending(0, "stopped")
    assert next(status.gateway for status in watched.statuses if process_of(status, "source").pid is not None) == "127.0.0.1:1"
    assert watched.states("source") == ["waits", "starts", "runs", "stops", "ended"]
    assert {str(status.condition) for status in watched.statuses} == {"starts", "runs", "stops", "ended"}
    assert gone(watched)


def test_a_process_runs_only_once_the_gateway_knows_it(tmp_path: Path) -> None:
    probe = Probe(Known())
    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS)), probe=probe)

    def connect(_: object) -> None:
        probe.known = Known(connected=frozenset({"source"}))

    def disconnect(_: object) -> None:
        probe.known = Known()

    watched.when(lambda status: process_of(status, "source").state == "starts", connect)
    watched.when(runs("source"), disconnect)
    watched.when(lambda status: status.cause == "source: its connection to the gateway is lost", connect)
    watched.when(runs("source"), stop)
    watched.run()
    assert watched.states("source") == ["waits", "starts", "runs", "reconnects", "runs", "stops", "ended"]


def test_a_gateway_that_must_not_be_asked(tmp_path: Path) -> None:
    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS)), probe=Probe(Known(permitted=False)))
    watched.when(runs("gateway", "source"), stop)
    assert watched.run().exit_code == 0
    assert watched.statuses[-1].acknowledged is None


# Restarting


def test_whoever_is_killed_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Longer than the supervisor may need on a busy machine, so that it is seen waiting.
    monkeypatch.setattr(backoff, "FIRST_WAIT_S", 0.5)
    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS), sink=(Kind.SINK, SLEEPS)))
    for name in ("source", "sink", "gateway"):
        watched.when(runs("gateway", "source", "sink"), kill(name))
        watched.when(partial(_is_down, name), lambda _: None)
    watched.when(runs("gateway", "source", "sink"), stop)
    assert watched.run().exit_code == 0
    for name in ("source", "sink", "gateway"):
        assert process_of(watched.statuses[-1], name).restarts == 1
        assert f"{name}: killed by SIGKILL" in {status.cause for status in watched.statuses}
    assert gone(watched)


def _has_started(starts: Path, times: int, status: Status) -> bool:
    return runs("gateway", "app")(status) and starts.exists() and len(starts.read_text().splitlines()) == times


def _is_down(name: str, status: Status) -> bool:
    return process_of(status, name).state == "waits"


def test_what_is_started_again_by_itself_continues_its_pipelines_and_what_somebody_restarts_may_begin_anew(
    tmp_path: Path,
) -> None:
    script = f'echo "start $HEADRACE_CONTINUES" >> starts\n{SLEEPS}'
    planned = plan(tmp_path, app=(Kind.PIPELINE, script))
    (app,) = planned.others
    planned = replace(planned, others=(replace(app, pipelines=("totals", "prices")),))
    changed = replace(planned, others=(replace(planned.others[0], settings="others"),))
    watched = Watched(planned, replan=lambda _: changed)

    def reload(_: Status) -> None:
        os.kill(os.getpid(), signal.SIGHUP)

    for number, then in enumerate((kill("app"), reload, stop), 1):
        watched.when(partial(_has_started, tmp_path / "starts", number), then)
    assert watched.run().exit_code == 0
    assert (tmp_path / "starts").read_text().splitlines() == ["start ", "start totals,prices", "start "]


@pytest.mark.parametrize(
    "line",
    [
        "Error: the queue is gone",
        "2026-01-31T12:00:00.250Z ERROR: the queue is gone",
        '{"level": "error", "event": "the queue is gone"}',
    ],
)
def test_who_keeps_failing_is_told_with_what_it_said(tmp_path: Path, line: str) -> None:
    script = f'echo \'{line}\'; echo \'{{"level": "info", "event": "at exit"}}\'; exit 1'
    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, script)))
    watched.when(lambda status: process_of(status, "source").restarts == 4, stop)
    watched.run()
    seen = [process_of(status, "source") for status in watched.statuses]
    assert any(process.state == "fails" for process in seen)
    assert {process.reason for process in seen} == {None, "ended with exit code 1: the queue is gone"}
    assert any(status.cause == "source: ended with exit code 1: the queue is gone" for status in watched.statuses)
    assert (tmp_path / "run" / "source.log").read_text().count("the queue is gone") >= 4


def test_waits_grow_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    waits = [backoff.wait_s(failures) for failures in range(1, 12)]
    assert 0.3 <= waits[0] <= 0.5
    assert waits[3] > waits[0]
    assert all(20 <= wait <= 30 for wait in waits[7:])


@pytest.mark.parametrize("code", [2, 3])
def test_what_can_never_run_ends_the_deployment(tmp_path: Path, code: int) -> None:
    waits = "while [ ! -e source.begun ]; do sleep 0.01; done"
    others = {"source": (Kind.SOURCE, notes("source")), "sink": (Kind.SINK, f"{waits}; echo 'no such sink'; exit {code}")}
    watched = Watched(plan(tmp_path, **others), probe=Probe(Known(connected=frozenset({"source"}))))
    with pytest.raises(CannotRun, match=f"sink ended with exit code {code}: no such sink \\(log: ") as caught:
        watched.run()
    assert caught.value.exit_code == code
    assert (tmp_path / "ended").read_text() == "source\n"
    assert gone(watched)


def test_who_has_run_before_is_started_again_whatever_it_says(tmp_path: Path) -> None:
    script = f"if [ -e ran ]; then {SLEEPS}; fi\ntouch ran; while [ ! -e fail ]; do sleep 0.01; done; exit 2"
    watched = Watched(plan(tmp_path, sink=(Kind.SINK, script)))
    watched.when(runs("sink"), lambda _: (tmp_path / "fail").touch())
    watched.when(lambda status: process_of(status, "sink").restarts == 1, stop)
    assert watched.run().exit_code == 0


# Ending


def test_they_end_in_the_order_in_which_messages_flow(tmp_path: Path) -> None:
    others = {
        "sink": (Kind.SINK, notes("sink")),
        "app": (Kind.PIPELINE, notes("app")),
        "source": (Kind.SOURCE, notes("source")),
    }
    watched = Watched(plan(tmp_path, notes("gateway", listens=True), **others))
    watched.when(begun(tmp_path, "gateway", *others), stop)
    assert watched.run() == Ending(0, "stopped")
    assert (tmp_path / "ended").read_text().split() == ["source", "app", "sink", "gateway"]


@pytest.mark.parametrize("name", ["gateway", "sink", "app"])
def test_what_ends_before_its_turn_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The source cannot end without it."""
    order = tuple((kinds, 120.0) for kinds, _ in supervisor_module._STOP_ORDER)
    monkeypatch.setattr(supervisor_module, "_STOP_ORDER", order)

    def counted(of: str, script: str) -> str:
        return f"if [ -e {of}.first ]; then touch {of}.again; fi; touch {of}.first\n{script}"

    waits = f"while [ ! -e {name}.again ]; do sleep 0.01; done"
    others = {
        "sink": (Kind.SINK, counted("sink", notes("sink"))),
        "app": (Kind.PIPELINE, counted("app", notes("app"))),
        "source": (
            Kind.SOURCE,
            f"trap '{waits}; echo source >> ended; kill $!; exit 0' TERM\ntouch source.begun\nsleep 600 &\nwait",
        ),
    }
    watched = Watched(plan(tmp_path, counted("gateway", notes("gateway", listens=True)), **others))
    watched.when(begun(tmp_path, "gateway", *others), stop)
    watched.when(lambda status: process_of(status, "source").state == "stops", kill(name))
    watched.run()
    ended = (tmp_path / "ended").read_text().split()
    assert ended[0] == "source"
    assert (tmp_path / f"{name}.again").exists()
    assert process_of(watched.statuses[-1], "source").state == "ended"
    assert {process_of(watched.statuses[-1], other).restarts for other in ("gateway", *others) if other != name} == {0}


def test_it_ends_when_all_sources_have(tmp_path: Path) -> None:
    waits = "while [ ! -e sink.begun ]; do sleep 0.01; done"
    others = {"a": (Kind.SOURCE, "exit 0"), "b": (Kind.SOURCE, waits), "sink": (Kind.SINK, notes("sink"))}
    watched = Watched(plan(tmp_path, **others))
    assert watched.run() == Ending(0, "ended")
    assert (tmp_path / "ended").read_text() == "sink\n"
    assert watched.statuses[-1].condition == "ended"
    assert process_of(watched.statuses[-1], "a").reason is None


def test_a_sink_that_ends_by_itself_is_started_again(tmp_path: Path) -> None:
    watched = Watched(plan(tmp_path, sink=(Kind.SINK, failing_once(SLEEPS, "exit 0"))))
    # On a busy machine the first start is seen to run before it ends.
    watched.when(lambda status: runs("sink")(status) and process_of(status, "sink").restarts == 1, stop)
    assert watched.run().exit_code == 0


def test_who_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "_STOP_ORDER", (((Kind.SINK,), 0.1), ((Kind.GATEWAY,), 5.0)))
    watched = Watched(plan(tmp_path, sink=(Kind.SINK, "trap '' TERM\ntouch deaf; while :; do sleep 600; done")))
    watched.when(lambda status: runs("sink")(status) and (tmp_path / "deaf").exists(), stop)
    assert watched.run() == Ending(1, "ended; killed, since they did not stop in time: sink")
    assert gone(watched)


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    watched = Watched(plan(tmp_path, sink=(Kind.SINK, "trap '' TERM\ntouch deaf; while :; do sleep 600; done")))
    watched.when(lambda status: runs("sink")(status) and (tmp_path / "deaf").exists(), stop)
    watched.when(lambda status: process_of(status, "sink").state == "stops", lambda _: os.kill(os.getpid(), signal.SIGINT))
    assert watched.run() == Ending(130, "stopped by force")
    assert gone(watched)


# One run at a time


def test_a_deployment_runs_once(tmp_path: Path) -> None:
    first = Watched(plan(tmp_path))
    complaints: list[str] = []

    def second(_: object) -> None:
        with pytest.raises(AlreadyRuns) as caught:
            Watched(plan(tmp_path)).run()
        complaints.append(str(caught.value))

    first.when(runs("gateway"), second).when(runs("gateway"), stop)
    first.run()
    assert complaints == [f"this deployment is already running, as process {os.getpid()}; stop that first"]


def test_processes_of_an_earlier_run_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    left = os.open(tmp_path / "run" / "processes.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(left, fcntl.LOCK_EX)
    watched = Watched(plan(tmp_path)).when(runs("gateway"), stop)
    monkeypatch.setattr(lock_module, "_END_WITHIN_S", 0.2)
    with pytest.raises(AlreadyRuns, match="processes of an earlier run of this deployment do not end; see the logs in "):
        watched.run()
    assert watched.told == ["waiting for the processes of an earlier run to end"]
    os.close(left)
    assert watched.run().exit_code == 0
