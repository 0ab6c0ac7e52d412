"""SIGKILL at every named point, alone and during the recovery from another, with both kinds of sources and sinks."""

import importlib
import inspect
import random
from collections.abc import Iterator
from functools import reduce

import pytest
from tests.exactly_once.episodes import OFFERED, Stages
from tests.exactly_once.points import POINTS, At

from headrace.chaos import Role

BY_NAME = {point.name: point for point in POINTS}
SAMPLE = (
    ("replayable.frame-sent.after", "gateway.frame-accepted.after"),
    ("gateway.ack-sent.before", "redelivering.frame-sent.before"),
    ("redelivering.ack-received.before", "two-phase.vote.after"),
    ("two-phase.commit.before", "executor.rows-delivered.after"),
    ("executor.range-read.after", "idempotent.vote.after"),
    ("idempotent.part-held.after", "driver.commits-written.before"),
    ("driver.commits-written.after", "replayable.ack-received.after"),
    ("gateway.vote.after", "gateway.commit-told.before"),
    ("two-phase.vote.after", "two-phase.commit.after"),
)
"""Each role first, each role second, and two during which the same process dies again."""

pytestmark = pytest.mark.timeout(600)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Pairs are the sample, or all of them: `--every-pair`, and `--shard 2/4` for the second of four parts."""
    if "first" not in metafunc.fixturenames:
        return
    pairs = [(a, b) for a in BY_NAME for b in BY_NAME] if metafunc.config.getoption("every_pair") else SAMPLE
    shard, shards = metafunc.config.getoption("shard")
    metafunc.parametrize(("first", "second"), pairs[shard - 1 :: shards])


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stages]:
    """The stage that goes on from episode to episode."""
    stages = Stages(lambda: tmp_path_factory.mktemp("exactly-once"))
    yield stages
    stages.dispose()


@pytest.mark.parametrize("name", BY_NAME)
def test_every_point_lies_in_a_function_of_the_product(name: str) -> None:
    point = BY_NAME[name]
    function = reduce(getattr, point.function.split("."), importlib.import_module(point.module))
    assert inspect.isgeneratorfunction(function) or point.at not in (At.ITEM, At.ITEM_TAKEN)


def test_the_sample_has_each_role_first_and_second() -> None:
    for place in (0, 1):
        assert {BY_NAME[pair[place]].role for pair in SAMPLE} == set(Role) == {point.role for point in POINTS}


@pytest.mark.parametrize("name", BY_NAME)
def test_a_process_dies_at_a_point(stages: Stages, name: str) -> None:
    with stages.current() as stage:
        stage.play([BY_NAME[name]])


def test_a_process_dies_during_the_recovery_from_another_death(stages: Stages, first: str, second: str) -> None:
    with stages.current() as stage:
        stage.play([BY_NAME[first], BY_NAME[second]])


def test_everything_dies_at_once(stages: Stages) -> None:
    with stages.current() as stage:
        stage.world.offer(OFFERED)
        visible = stage.world.progress()
        stage.world.wait_for("some is visible", lambda: stage.world.progress() > visible)
        for role in Role:
            stage.world.kill(role)
        for role in Role:
            stage.world.restart(role)
        stage.finish()


def test_processes_die_again_and_again(stages: Stages) -> None:
    """All but the driver, at any moment, also before they are ready."""
    moments = random.Random("again and again")
    roles = [role for role in Role if role != Role.DRIVER]
    with stages.current() as stage:
        for _ in range(15):
            stage.world.offer(OFFERED // 5)
            role = moments.choice(roles)
            stage.world.kill(role)
            stage.world.restart(role)
            stage.pass_time(moments.uniform(0, 1))
        stage.finish()
