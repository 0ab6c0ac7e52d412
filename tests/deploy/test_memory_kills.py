"""A process that the kernel has killed for lack of memory: its end names that, also if only its child was killed."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.absent import absent
from tests.deploy.supervisors import SLEEPS, Watched, kill, plan, process_of, runs, stop

from headrace.deploy import Kind
from headrace.deploy import process as process_module
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
    assert reasons[0].startswith("killed by SIGKILL; out of memory: the kernel has killed a process of this ")
