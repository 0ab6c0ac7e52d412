"""SIGKILL at every named point, alone and during the recovery from another, with both kinds of sources and sinks."""

import importlib
import inspect
import random
from collections.abc import Iterator
from functools import reduce

import pytest
from tests.exactly_once.episodes import OFFERED, Stages
from tests.exactly_once.points import POINTS, At
from tests.exactly_once.samples import sample

from headrace.laboratory.chaos import Role

BY_NAME = {point.name: point for point in POINTS}

pytestmark = pytest.mark.timeout(600)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Deaths are a sample, or all of them: `--every-pair`, and `--shard 2/4` for the second of four parts."""
    config = metafunc.config
    whole = bool(config.getoption("every_pair"))
    chosen = sample(POINTS, str(config.getoption("kill_seed")))
    if "alone" in metafunc.fixturenames:
        metafunc.parametrize("alone", list(BY_NAME) if whole else chosen.alone)
    if "first" in metafunc.fixturenames:
        pairs = [(a, b) for a in BY_NAME for b in BY_NAME] if whole else chosen.pairs
        shard, shards = config.getoption("shard")
        metafunc.parametrize(("first", "second"), pairs[shard - 1 :: shards])


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stages]:
    """The stage that continues from episode to episode."""
    stages = Stages(lambda: tmp_path_factory.mktemp("exactly-once"))
    yield stages
    stages.dispose()


@pytest.mark.parametrize("name", BY_NAME)
def test_every_point_lies_in_a_function_of_the_product(name: str) -> None:
    point = BY_NAME[name]
    function = reduce(getattr, point.function.split("."), importlib.import_module(point.module))
    assert inspect.isgeneratorfunction(function) or point.at not in (At.ITEM, At.ITEM_TAKEN)


@pytest.mark.parametrize("seed", range(20))
def test_a_sample_has_each_event_once_and_each_role_first_and_second(seed: int) -> None:
    chosen = sample(POINTS, str(seed))
    deaths = [BY_NAME[name] for name in (*chosen.alone, *(name for pair in chosen.pairs for name in pair))]
    assert sorted((point.role, point.event) for point in deaths) == sorted({(point.role, point.event) for point in POINTS})
    for place in (0, 1):
        assert sorted(BY_NAME[pair[place]].role for pair in chosen.pairs) == sorted(Role)


def test_samples_of_some_seeds_have_every_point_alone_or_in_a_pair() -> None:
    samples = [sample(POINTS, str(seed)) for seed in range(50)]
    assert {name for chosen in samples for pair in chosen.pairs for name in pair} == set(BY_NAME)
    assert sample(POINTS, "7") == sample(POINTS, "7")


def test_a_process_dies_at_a_point(stages: Stages, alone: str) -> None:
    with stages.current() as stage:
        stage.play([BY_NAME[alone]])


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
