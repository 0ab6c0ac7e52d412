"""What sessions with `--heavy` run, and what they write about the rest."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.selection.choice import TURNS, turn_of
from tests.selection.processor_time import Group, of_children_s, own_group
from tests.selection.spent import BESIDE

ROOT = Path(__file__).parents[2]
DEADLINE_S = 300.0
TESTS = """
import pytest


def test_light():
    pass


@pytest.mark.parametrize("number", range(12))
def test_heavy(number):
    pass


def test_of_a_broker(request):
    pytest.skip("kafka is not installed")


def test_expected_to_fail():
    pytest.xfail("known")
"""
HEAVY = {f"test_heavy[{number}]" for number in range(12)}
ALL = {"test_light", "test_of_a_broker", "test_expected_to_fail", *HEAVY}


class Sessions:
    """Runs pytest on one file, in which `test_heavy` has a cost."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "test_some.py"
        self._file.write_text(TESTS)
        self._costs = folder / "costs.txt"
        name = os.path.relpath(self._file, ROOT)
        self._costs.write_text(f"2.0 {name}::test_heavy\n")

    def run(self, *arguments: str) -> tuple[set[str], dict[str, str]]:
        """Which tests ran, by function and case; and what was left out, with the reason."""
        left_out = self._folder / "left-out"
        options = [
            "--costs",
            str(self._costs),
            "--left-out",
            str(left_out),
            "--rootdir",
            str(ROOT),
            "-v",
            "-p",
            "no:cacheprovider",
        ]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "tests.conftest",
            "-c",
            str(ROOT / "pyproject.toml"),
            *options,
            *arguments,
        ]
        done = subprocess.run(
            [*command, str(self._file)], cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        ran = set(re.findall(r"::(test_\w+(?:\[[\w-]+\])?) (?:PASSED|SKIPPED|XFAIL)", done.stdout))
        lines = [json.loads(line) for line in left_out.read_text().splitlines()]
        return ran, {test.rpartition("::")[2]: reason for test, reason in lines}


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(tmp_path)


def test_without_an_option_all_tests_run(sessions: Sessions) -> None:
    assert sessions.run() == (ALL, {"test_of_a_broker": "kafka is not installed"})


def test_of_a_test_with_the_mark_cases_run_that_have_each_value(sessions: Sessions, tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n\n\n@pytest.mark.each_value\n"
        '@pytest.mark.parametrize("a", range(3))\n@pytest.mark.parametrize("b", [["x"], ["y"]], ids=["x", "y"])\n'
        "def test_of_two(a, b):\n    pass\n"
    )
    every = {f"test_of_two[{b}-{a}]" for a in range(3) for b in "xy"}
    ran, left_out = sessions.run("--kill-seed", "7")
    assert len(ran) == 3
    assert ran < every
    assert {name for case in ran for name in re.findall("[xy0-9]", case.partition("[")[2])} == {*"xy012"}
    assert left_out == {}
    assert sessions.run("--kill-seed", "7")[0] == ran
    assert sessions.run("--every-pair")[0] == every


def test_of_tests_with_the_mark_a_run_has_those_whose_turn_it_is(sessions: Sessions, tmp_path: Path) -> None:
    tests = [f"@pytest.mark.in_turn({turn})\ndef test_{turn}():\n    pass\n" for turn in range(1, TURNS + 1)]
    tests += [f"@pytest.mark.in_turn({turn}, 5)\ndef test_rare_{turn}():\n    pass\n" for turn in range(1, 6)]
    (tmp_path / "test_some.py").write_text("\n\n".join(["import pytest\n", *tests]))
    every = {f"test_{turn}" for turn in range(1, TURNS + 1)} | {f"test_rare_{turn}" for turn in range(1, 6)}
    assert sessions.run("--kill-seed", "7") == (every, {})
    own = {f"test_{turn_of('7')}", f"test_rare_{turn_of('7', 5)}"}
    assert sessions.run("--in-turn", "--kill-seed", "7") == (own, dict.fromkeys(every - own, "in turn"))


def test_a_sample_and_the_shares_of_its_seed_are_all_tests_once(sessions: Sessions) -> None:
    taken, left_out = sessions.run("--heavy", "sample", "--kill-seed", "7")
    assert taken >= ALL - HEAVY
    assert taken & HEAVY
    assert left_out == {**dict.fromkeys(ALL - taken, "heavy"), "test_of_a_broker": "kafka is not installed"}
    shares = [sessions.run("--heavy", f"{part}/3", "--kill-seed", "7")[0] for part in (1, 2, 3)]
    assert sum(map(len, shares)) == len(ALL - taken)
    assert taken.union(*shares) == ALL


def test_the_processor_time_of_each_test_that_ran_is_written(sessions: Sessions, tmp_path: Path) -> None:
    file = tmp_path / "spent"
    ran, _ = sessions.run("--heavy", "sample", "--kill-seed", "7", "--spent", str(file))
    spent = dict(map(json.loads, file.read_text().splitlines()))
    assert {test.rpartition("::")[2] for test in spent} == {*ran, BESIDE}
    assert all(seconds >= 0 for seconds in spent.values())


@contextmanager
def meters() -> Iterator[list[Callable[[], float]]]:
    """All that can tell what this process has spent: the time of children, and of a control group where it may make one."""
    group = None
    if (parent := own_group()) is not None:
        with suppress(OSError):
            group = Group(parent)
    try:
        yield [of_children_s, *([] if group is None else [group.processor_s])]
    finally:
        if group is not None:
            group.leave()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, a child counts once it has ended")
def test_a_child_counts_while_it_runs() -> None:
    program = "import time\nwhile time.process_time() < 0.5:\n    pass\nprint(flush=True)\ninput()\n"
    with meters() as found:
        began = [meter() for meter in found]
        with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"\n"
            running = [meter() - before for meter, before in zip(found, began, strict=True)]
            child.communicate(b"\n", DEADLINE_S)
        assert min(running) >= 0.4
        # Of a child that runs, the system tells whole ticks.
        ended = [meter() - before for meter, before in zip(found, began, strict=True)]
        assert all(after >= during - 0.05 for after, during in zip(ended, running, strict=True))


def test_a_control_group_is_made_for_this_process_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, own = tmp_path / "headrace-tests-1", tmp_path / f"headrace-tests-{os.getpid()}"
    left.mkdir()
    with pytest.raises(FileNotFoundError):
        Group(tmp_path)
    assert [*tmp_path.iterdir()] == []
    mkdir = Path.mkdir

    def make(folder: Path) -> None:
        mkdir(folder)
        # The kernel writes it.
        (folder / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")

    monkeypatch.setattr(Path, "mkdir", make)
    group = Group(tmp_path)
    assert group.processor_s() == 2.5
    assert (own / "cgroup.procs").read_text() == str(os.getpid())
    group.leave()
    assert (tmp_path / "cgroup.procs").read_text() == str(os.getpid())


def test_a_share_without_tests_succeeds(sessions: Sessions) -> None:
    ran = [sessions.run("--heavy", f"{part}/40", "--kill-seed", "7")[0] for part in (1, 2, 3, 4)]
    assert not all(ran)
