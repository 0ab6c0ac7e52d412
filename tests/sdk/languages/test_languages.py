"""A source in each language and a two-phase sink in another: SIGKILL of source, sink, gateway and driver at named points."""

from itertools import permutations
from pathlib import Path

import pytest
from tests.sdk.languages.deaths import everything, sample
from tests.sdk.languages.programs import LANGUAGES
from tests.sdk.languages.world import SharedDriver, World

PAIRS = [("python", "go"), ("go", "typescript"), ("typescript", "java"), ("java", "rust"), ("rust", "python")]

pytestmark = pytest.mark.timeout(1800)  # The first builds compile gRPC.


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Five pairs, in which each language has the source once and the sink once; with `--every-pair` all pairs, or a `--shard`."""
    if "source" not in metafunc.fixturenames:
        return
    shard, shards = metafunc.config.getoption("shard")
    pairs = list(permutations(LANGUAGES, 2)) if metafunc.config.getoption("every_pair") else PAIRS
    cases = [
        pytest.param(*pair, marks=pytest.mark.in_turn(1 + place % len(PAIRS), len(PAIRS))) for place, pair in enumerate(pairs)
    ]
    metafunc.parametrize(("source", "sink"), cases[shard - 1 :: shards])


def test_each_language_has_the_source_once_and_the_sink_once() -> None:
    assert [sorted(languages) for languages in zip(*PAIRS, strict=True)] == [sorted(LANGUAGES)] * 2


def test_every_line_is_there_once_whatever_is_killed(
    shared_driver: SharedDriver, tmp_path: Path, request: pytest.FixtureRequest, source: str, sink: str
) -> None:
    seed = f"{request.config.getoption('kill_seed')} {source} {sink}"
    deaths = everything(seed) if request.config.getoption("every_pair") else sample(seed)
    world = World(tmp_path, shared_driver, LANGUAGES[source].source(), LANGUAGES[sink].sink(), LANGUAGES[sink])
    try:
        world.play(deaths)
    finally:
        world.rig.dispose()
