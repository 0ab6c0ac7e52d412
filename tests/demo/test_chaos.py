"""The plan of kills, and that a killed process takes its descendants along."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.laboratory.demo.chaos import PROCESSES, plan_kills
from headrace.processes import OwnedProcess, lives

_FAMILY = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: (print("well", flush=True), os._exit(0)))
child = subprocess.Popen([sys.executable, "-c", {child!r}])
{then}
"""
# As Spark's Python daemon does, it leaves its parent's process group.
_CHILD = "import os, time; os.setpgid(0, 0); print('child', os.getpid(), flush=True); time.sleep(600)"


@pytest.mark.parametrize("seed", range(50))
def test_a_plan_kills_each_process_and_a_pair_in_mid_stream(seed: int) -> None:
    plan = plan_kills(seed)
    assert {victim for kill in plan for victim in kill.victims} == set(PROCESSES)
    assert [len(kill.victims) for kill in plan].count(2) == 1
    assert [victim for kill in plan for victim in kill.victims].count("driver") == 1
    assert [kill.at for kill in plan] == sorted(kill.at for kill in plan)
    assert all(0.1 <= kill.at <= 0.8 for kill in plan)


def test_a_seed_means_the_same_kills_again() -> None:
    assert plan_kills(7) == plan_kills(7)
    assert len({plan_kills(seed) for seed in range(20)}) == 20


def _owned(folder: Path, then: str) -> OwnedProcess:
    return OwnedProcess("family", [sys.executable, "-c", _FAMILY.format(child=_CHILD, then=then)], folder, dict(os.environ))


def _eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _child_of(process: OwnedProcess) -> int:
    _eventually(lambda: "child" in (printed := process.log.read_text()) and printed.endswith("\n"))
    return int(process.tail()[0].split()[1])


def test_a_kill_takes_descendants_along_and_a_new_start_is_another_process(tmp_path: Path) -> None:
    process = _owned(tmp_path, "child.wait()")
    process.start()
    child = _child_of(process)
    assert process.exit_code() is None
    process.kill()
    assert not lives(child)
    process.start()
    try:
        assert process.exit_code() is None
        assert process.pids[0] != process.pid
    finally:
        process.kill()
    process.kill()


def test_an_orphan_is_killed_when_its_parent_has_ended(tmp_path: Path) -> None:
    process = _owned(tmp_path, "os._exit(4)")
    process.start()
    child = _child_of(process)
    codes: list[int] = []

    def ended() -> bool:
        code = process.exit_code()
        codes.extend([] if code is None else [code])
        return bool(codes)

    _eventually(ended)
    assert codes == [4]
    assert not lives(child)


def test_stopping_gives_time_to_end_well(tmp_path: Path) -> None:
    process = _owned(tmp_path, "child.wait()")
    process.start()
    child = _child_of(process)
    process.stop(10)
    assert process.tail()[-1] == "well"
    assert not lives(child)


def test_nothing_is_killed_that_is_not_its_own(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        process = _owned(tmp_path, "child.wait()")
        process.start()
        process.kill()
        assert other.poll() is None
        other.kill()
