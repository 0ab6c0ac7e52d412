"""Changes of a deployment's file while it runs: applied by difference, all of them or none."""

import os
import signal
from pathlib import Path

import pytest
from tests.deploy.supervisors import LISTENS, SLEEPS, Watched, plan, process_of, runs, stop

from headrace.deploy import DeploymentError, Ending, IsStopped, Kind, Plan, Status, backoff
from headrace.deploy import supervisor as supervisor_module


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for long."""
    monkeypatch.setattr(backoff, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(supervisor_module, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("headrace.deploy.processes._ASK_EVERY_S", 0.01)


def reload(_: Status) -> None:
    os.kill(os.getpid(), signal.SIGHUP)


def starts(watched: Watched, name: str) -> int:
    """How many times a process was started."""
    found = (process.pid for status in watched.statuses for process in status.processes if process.name == name)
    return len({pid for pid in found if pid is not None})


def test_what_has_changed_restarts_and_nothing_else(tmp_path: Path) -> None:
    changed = plan(tmp_path, source=(Kind.SOURCE, SLEEPS), sink=(Kind.SINK, f"true\n{SLEEPS}"))
    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS), sink=(Kind.SINK, SLEEPS)), replan=lambda _: changed)
    watched.when(runs("gateway", "source", "sink"), reload)
    watched.when(lambda status: process_of(status, "sink").restarts == 1 and process_of(status, "sink").state == "runs", stop)
    assert watched.run() == Ending(0, "stopped")
    assert [starts(watched, name) for name in ("gateway", "source", "sink")] == [1, 1, 2]
    assert watched.told == ["reloaded: sink is restarted"]


def test_what_is_new_starts_and_what_is_gone_stops(tmp_path: Path) -> None:
    changed = plan(tmp_path, source=(Kind.SOURCE, SLEEPS), app=(Kind.PIPELINE, SLEEPS))
    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS), sink=(Kind.SINK, SLEEPS)), replan=lambda _: changed)
    watched.when(runs("gateway", "source", "sink"), reload)
    watched.when(lambda status: {p.name for p in status.processes if p.state == "runs"} == {"gateway", "source", "app"}, stop)
    assert watched.run() == Ending(0, "stopped")
    assert [starts(watched, name) for name in ("gateway", "source", "sink", "app")] == [1, 1, 1, 1]
    assert watched.told == ["reloaded: app is new, sink is removed"]


def test_a_file_that_is_invalid_or_changes_the_gateway_changes_nothing(tmp_path: Path) -> None:
    outcomes: list[Plan | DeploymentError] = [
        DeploymentError("deploy.toml:3: no such connector"),
        plan(tmp_path, f"true\n{LISTENS}", source=(Kind.SOURCE, f"true\n{SLEEPS}")),
        plan(tmp_path, source=(Kind.SOURCE, SLEEPS)),
    ]

    def replan(_: IsStopped) -> Plan:
        outcome = outcomes.pop(0)
        if isinstance(outcome, DeploymentError):
            raise outcome
        return outcome

    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS)), replan=replan)
    watched.when(runs("gateway", "source"), reload)
    watched.when(lambda _: len(watched.told) == 1, reload)
    watched.when(lambda _: len(watched.told) == 2, reload)
    watched.when(lambda _: len(watched.told) == 3, stop)
    assert watched.run() == Ending(0, "stopped")
    assert [starts(watched, name) for name in ("gateway", "source")] == [1, 1]
    assert watched.told[0] == "reload refused: deploy.toml:3: no such connector"
    assert watched.told[1].startswith("reload refused: [gateway] cannot change")
    assert watched.told[2] == "reloaded: nothing has changed"


@pytest.mark.parametrize("error", [ValueError("embedded null byte"), RecursionError(), KeyError("result"), OSError("gone")])
def test_whatever_fails_while_a_file_is_read_again_the_processes_run_on(tmp_path: Path, error: Exception) -> None:
    def replan(_: IsStopped) -> Plan:
        raise error

    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS)), replan=replan)
    watched.when(runs("gateway", "source"), reload)
    watched.when(lambda _: bool(watched.told), stop)
    assert watched.run() == Ending(0, "stopped")
    assert [starts(watched, name) for name in ("gateway", "source")] == [1, 1]
    assert watched.told == [f"reload refused: {str(error) or 'RecursionError'}; nothing has changed"]


def test_a_command_line_that_is_none_fails_its_own_process_only(tmp_path: Path) -> None:
    planned = plan(tmp_path, source=(Kind.SOURCE, SLEEPS), sink=(Kind.SINK, "true\0"))
    watched = Watched(planned)
    watched.when(lambda status: runs("source")(status) and process_of(status, "sink").state == "fails", stop)
    assert watched.run() == Ending(0, "stopped")
    assert any("embedded null byte" in (process_of(status, "sink").reason or "") for status in watched.statuses)
    assert [starts(watched, name) for name in ("gateway", "source", "sink")] == [1, 1, 0]
