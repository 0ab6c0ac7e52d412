"""What a supervisor inherits, and what it runs out of: its processes are started again, and end, all the same."""

import contextlib
import errno
import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.deploy.supervisors import SLEEPS, Watched, kill, plan, process_of, runs, stop

from headrace.deploy import AlreadyRuns, Ending, Kind, Signals, Status, backoff
from headrace.deploy import lock as lock_module
from headrace.deploy import supervisor as supervisor_module


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for long."""
    monkeypatch.setattr(backoff, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(supervisor_module, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("headrace.deploy.processes._ASK_EVERY_S", 0.01)


NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


@contextlib.contextmanager
def inherited() -> Iterator[None]:
    """As a program may be started: it ignores all of these, and blocks them."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in NUMBERS}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)


def test_signals_that_are_ignored_and_blocked_at_the_start_are_taken(tmp_path: Path) -> None:
    """Without SIGCHLD, each process would seem to have ended well, and would not be started again."""
    script = "if [ -e ran ]; then exec sleep 600; fi; touch ran; exit 5"
    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, script), sink=(Kind.SINK, SLEEPS)))
    watched.when(lambda status: runs("source", "sink")(status) and process_of(status, "source").restarts == 1, kill("sink"))
    watched.when(lambda status: runs("source", "sink")(status) and process_of(status, "sink").restarts == 1, stop)
    with inherited():
        assert watched.run() == Ending(0, "stopped")
    reasons = {process.reason for status in watched.statuses for process in status.processes}
    assert {"ended with exit code 5", "killed by SIGKILL"} <= reasons


def test_signals_are_afterwards_as_they_were_before() -> None:
    with inherited():
        with Signals().noted():
            assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
            assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & set(NUMBERS)
        assert {signal.getsignal(number) for number in NUMBERS} == {signal.SIG_IGN}
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) >= set(NUMBERS)


class Descriptors:
    """The descriptors of this process, which run out."""

    def __init__(self) -> None:
        self._limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._filled: list[int] = []

    def take_all(self) -> None:
        """Takes what is left, again and again: the supervisor closes some, too."""
        if resource.getrlimit(resource.RLIMIT_NOFILE) == self._limits:
            largest = max(int(name) for name in os.listdir("/proc/self/fd"))
            resource.setrlimit(resource.RLIMIT_NOFILE, (largest + 1, self._limits[1]))
        with contextlib.suppress(OSError):
            while True:
                self._filled.append(os.dup(0))

    def give_back(self) -> None:
        for descriptor in self._filled:
            os.close(descriptor)
        self._filled.clear()
        resource.setrlimit(resource.RLIMIT_NOFILE, self._limits)


@pytest.mark.parametrize("comes_back", [True, False])
def test_descriptors_run_out(tmp_path: Path, comes_back: bool) -> None:
    watched, descriptors = Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS), sink=(Kind.SINK, SLEEPS))), Descriptors()

    def is_named(status: Status) -> bool:
        descriptors.take_all()
        if process_of(status, "sink").pid is not None:
            # It has found some that the supervisor has closed meanwhile.
            with contextlib.suppress(ProcessLookupError):
                kill("sink")(status)
        return os.strerror(errno.EMFILE) in (process_of(status, "sink").reason or "")

    watched.when(runs("gateway", "source", "sink"), lambda _: descriptors.take_all())
    watched.when(is_named, lambda _: descriptors.give_back() if comes_back else None)
    watched.when(lambda status: not comes_back or runs("source", "sink")(status), stop)
    try:
        assert watched.run() == Ending(0, "stopped")
    finally:
        descriptors.give_back()
    assert process_of(watched.statuses[-1], "source").restarts == 0
    seen = {process.pid for status in watched.statuses for process in status.processes if process.pid is not None}
    assert not [pid for pid in seen if not is_other(pid, tmp_path)]


def is_other(pid: int, folder: Path) -> bool:
    """Whether a process id is of another process by now."""
    try:
        return os.readlink(f"/proc/{pid}/cwd") != str(folder)
    except OSError:
        return True


def test_a_process_of_an_earlier_run_that_does_not_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "_END_WITHIN_S", 0.0)
    with lock_module.exclusive_run(tmp_path / "deploy.toml", tmp_path / "run", pytest.fail) as first:
        daemon = subprocess.Popen(["sleep", "600"], pass_fds=first.inherits)
    try:
        with (
            pytest.raises(AlreadyRuns, match=rf"do not end: {daemon.pid} \(sleep\); see the logs in"),
            lock_module.exclusive_run(tmp_path / "deploy.toml", tmp_path / "run", lambda _: None),
        ):
            pass
    finally:
        daemon.kill()
        daemon.wait()
