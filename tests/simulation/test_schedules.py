"""Schedules of the simulation hold, and are the same for the same seed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.simulation.drawing import PROFILES, draw
from headrace.simulation.scale import LARGE, SMALL, Scale, scale_of
from headrace.simulation.schedule import Schedule
from headrace.simulation.simulating import simulate

SEEDS = ("1", "2", "3")


@pytest.mark.parametrize("scale", [SMALL, LARGE], ids=lambda scale: scale.name)
@pytest.mark.parametrize("profile", PROFILES)
def test_what_must_hold_holds_in_each_schedule(profile: str, scale: Scale) -> None:
    for seed in SEEDS:
        assert simulate(draw(seed, profile, scale)).violations == (), f"seed {seed} --profile {profile} --scale {scale.name}"


def test_three_of_four_schedules_are_small_and_the_rest_large() -> None:
    scales = [scale_of(str(seed)) for seed in range(4_000)]
    assert set(map(id, scales)) == {id(SMALL), id(LARGE)}
    assert 2_800 < scales.count(SMALL) < 3_200
    assert scales == [scale_of(str(seed)) for seed in range(4_000)]


def test_a_small_world_runs_in_less_than_half_of_the_callbacks() -> None:
    small, large = (sum(simulate(draw(seed, "all", scale)).callbacks for seed in SEEDS) for scale in (SMALL, LARGE))
    assert 2 * small < large


def test_a_minute_of_schedules() -> None:
    """The same seeds in each run, so that a change that fails has broken something; `make simulate` takes fresh ones.

    How many of them a minute allows, the machine decides.
    """
    first = 1
    arguments = ("--first", str(first), "--seeds", "1000", "--seconds", "60")
    run = subprocess.run([sys.executable, "-m", "headrace.simulation", *arguments], capture_output=True, text=True, timeout=500)
    print(f"python -m headrace.simulation --first {first}:\n{run.stdout}")
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_schedule_does_something() -> None:
    result = simulate(draw("4", "cuts"))
    assert result.counts["commits"] > 0
    assert result.counts["rows"] > 0
    assert result.counts["faults"] > 0
    assert {"Plan", "Fetch", "Deliver", "Vote", "source acknowledged", "sink committed"} <= result.points.keys()


def test_the_same_schedule_has_the_same_trace() -> None:
    first, second = (simulate(draw("5", "cuts"), traced=True) for _ in range(2))
    assert first.lines
    assert first.lines == second.lines
    assert first.digest == second.digest


def test_tracing_changes_nothing() -> None:
    assert simulate(draw("5"), traced=True).digest == simulate(draw("5")).digest


def test_the_same_seed_has_the_same_trace_in_any_process() -> None:
    def trace(hash_seed: str) -> str:
        command = [sys.executable, "-m", "headrace.simulation", "--seed", "6", "--trace"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        output = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True).stdout
        return output.rpartition("schedules (")[0]

    assert trace("1") == trace("2")


def test_several_processes_see_the_same_as_one() -> None:
    def totals(jobs: str) -> str:
        command = [sys.executable, "-m", "headrace.simulation", "--seeds", "4", "--jobs", jobs]
        output = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
        return output.rpartition("): ")[2]

    assert totals("1") == totals("2")


def test_a_run_that_was_stopped_continues(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "headrace.simulation", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    file = tmp_path / "progress.json"
    whole = run("--seeds", "4")
    run("--seeds", "2", "--progress", str(file))
    continued = run("--seeds", "4", "--progress", str(file), "--jobs", "0")
    assert continued.stdout.rpartition("): ")[2] == whole.stdout.rpartition("): ")[2]
    other = run("--seeds", "4", "--first", "2", "--progress", str(file))
    assert (other.returncode, "name another file" in other.stderr) == (2, True)


def test_a_schedule_is_the_same_after_it_was_stored() -> None:
    for profile in PROFILES:
        for scale in (SMALL, LARGE):
            schedule = draw("7", profile, scale)
            assert Schedule.from_json(schedule.to_json()) == schedule
