"""A process that the kernel has killed for lack of memory: its end names that, even if only its child was killed."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.absent import absent
from tests.deploy.supervisors import SLEEPS, Watched, kill, plan, process_of, role, runs, stop

from headrace.deploy import Kind
from headrace.deploy import process as process_module
from headrace.deploy.process import SupervisedProcess
from headrace.processes import MemoryKills
from headrace.processes import memory_kills as counted

SETS_LIMIT = 64 << 20
LARGER = "x = bytearray(512 << 20)"


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.deploy.supervisor._LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("headrace.deploy.processes._ASK_EVERY_S", 0.01)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (MemoryKills(1, 4), MemoryKills(2, 5), "of this cgroup"),
        (MemoryKills(1, 4), MemoryKills(1, 5), "of this machine"),
        (MemoryKills(1, 4), MemoryKills(1, 4), ""),
    ],
)
def test_what_the_kernel_has_killed_since_a_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: MemoryKills, after: MemoryKills, said: str
) -> None:
    now = [before]
    monkeypatch.setattr(process_module, "memory_kills", lambda: now[0])

    def killed(status: object) -> None:
        now[0] = after
        kill("source")(status)  # type: ignore[arg-type]

    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, SLEEPS)))
    watched.when(runs("source"), killed)
    watched.when(lambda status: process_of(status, "source").reason is not None, stop)
    watched.run()
    reasons = {reason for status in watched.statuses if (reason := process_of(status, "source").reason) is not None}
    assert len(reasons) == 1
    (reason,) = reasons
    assert reason.startswith("killed by SIGKILL")
    assert ("out of memory" in reason) == bool(said)
    assert said in reason


NONE = MemoryKills(1, 4)
IN_CGROUP, ON_MACHINE = MemoryKills(2, 5), MemoryKills(1, 5)
UNTOLD, UNTOLD_ON_MACHINE = MemoryKills(None, 4), MemoryKills(None, 5)


class Ending:
    """A process that runs until a test sets its exit code."""

    def __init__(self, log: Path) -> None:
        self.log, self.pids, self.runs = log, [1], False
        self.code: int | None = None
        self.environ: dict[str, str] = {}

    def start(self) -> None:
        self.runs = True

    def exit_code(self) -> int | None:
        self.runs = self.code is None
        return self.code

    def catch_up(self) -> None:
        pass


class Run:
    """A run of a process, second after second."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, before: MemoryKills) -> None:
        self.kills = before
        monkeypatch.setattr(process_module, "memory_kills", lambda: self.kills)
        self.process: Any = Ending(folder / "one.log")
        disk: Any = SimpleNamespace(ask=lambda call: call())
        self.one = SupervisedProcess(role("one", kind, SLEEPS), self.process, disk)
        self.now = 1_000.0
        self.one.start_if_due(self.now)

    def goes_on(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            self.one.look(self.now, connected=True)

    def ends(self, code: int) -> str:
        self.process.code = code
        self.goes_on(1)
        assert self.one.reason is not None
        return self.one.reason


@pytest.mark.parametrize("after", [IN_CGROUP, ON_MACHINE])
@pytest.mark.parametrize(("kind", "code"), [(Kind.SOURCE, -9), (Kind.SINK, 137), (Kind.PIPELINE, 1), (Kind.QUERY, -9)])
def test_a_kill_of_long_ago_is_no_reason_for_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: MemoryKills, kind: Kind, code: int
) -> None:
    run = Run(tmp_path, monkeypatch, kind, NONE)
    run.goes_on(10)
    run.kills = after
    run.goes_on(200)
    assert "memory" not in run.ends(code)


@pytest.mark.parametrize(
    ("kind", "code", "before", "after", "said"),
    [
        (Kind.SOURCE, -9, NONE, IN_CGROUP, "of this cgroup"),
        (Kind.SOURCE, 137, NONE, ON_MACHINE, "of this machine"),
        (Kind.SOURCE, 1, NONE, IN_CGROUP, ""),
        (Kind.GATEWAY, -15, NONE, IN_CGROUP, ""),
        (Kind.SINK, 2, UNTOLD, UNTOLD_ON_MACHINE, ""),
        (Kind.PIPELINE, 1, NONE, IN_CGROUP, "of this cgroup"),
        (Kind.QUERY, 1, NONE, ON_MACHINE, ""),
        (Kind.QUERY, 1, UNTOLD, UNTOLD_ON_MACHINE, "of this machine"),
        (Kind.PIPELINE, -9, NONE, ON_MACHINE, "of this machine"),
        (Kind.PIPELINE, -9, UNTOLD, MemoryKills(1, None), ""),
    ],
)
def test_only_an_end_by_sigkill_or_of_a_program_with_a_jvm_is_for_want_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, code: int, before: MemoryKills, after: MemoryKills, said: str
) -> None:
    run = Run(tmp_path, monkeypatch, kind, before)
    run.goes_on(200)
    run.kills = after
    reason = run.ends(code)
    assert ("out of memory" in reason) == bool(said)
    assert said in reason


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A cgroup of little memory, in which a process of the test may begin."""
    for root, limit in ((Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"), (Path("/sys/fs/cgroup"), "memory.max")):
        folder = root / f"headrace-test-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / limit).write_text(str(SETS_LIMIT))
        except OSError:
            folder.rmdir()
            continue
        yield folder
        with suppress(OSError):
            folder.rmdir()
        return
    absent("no cgroup with a limit of memory can be made here: that needs root")


def test_a_process_that_the_kernel_kills_for_lack_of_memory_is_named_as_such(tmp_path: Path, cgroup: Path) -> None:
    before = counted()
    script = f"echo $$ > {cgroup}/cgroup.procs && exec {sys.executable} -c '{LARGER}'"
    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, script)))
    watched.when(lambda status: process_of(status, "source").reason is not None, stop)
    watched.run()
    assert counted().of_machine > before.of_machine
    reasons = [reason for status in watched.statuses if (reason := process_of(status, "source").reason) is not None]
    assert reasons[0].startswith("killed by SIGKILL; out of memory: the kernel has just killed a process of this ")
