"""Samples of expensive cases: as many as a mark says, the same for the same seed, and all of them where that is asked for."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PROGRAM = """
import pytest

pytestmark = pytest.mark.sampled("kind", per="language")


@pytest.mark.parametrize("kind", ["source", "sink"])
@pytest.mark.parametrize("language", ["go", "java", "rust", "python"])
def test_one(kind, language): ...


@pytest.mark.parametrize("kind", ["source", "sink"])
@pytest.mark.parametrize("language", ["go", "java", "rust", "python"])
def test_another(kind, language): ...


def test_without_parameters(): ...
"""


@pytest.fixture
def session(pytester: pytest.Pytester) -> pytest.Pytester:
    """A session with the plugin, and with the options that it needs."""
    options = 'def pytest_addoption(parser):\n    parser.addoption("--every-pair", action="store_true")\n'
    pytester.makeconftest(options + '    parser.addoption("--kill-seed", default="0")\n')
    pytester.syspathinsert(Path(__file__).resolve().parents[1])
    pytester.makepyfile(PROGRAM)
    return pytester


def collected(session: pytest.Pytester, *options: str) -> list[str]:
    """The tests that a run of these options has."""
    result = session.inline_run("-p", "tests.sampling", "-p", "no:asyncio", "--collect-only", "-q", *options)
    (last,) = result.getcalls("pytest_collection_finish")
    return [item.name for item in last.session.items]


def test_a_run_has_one_kind_of_each_language_in_all_tests(session: pytest.Pytester) -> None:
    samples = set()
    for seed in range(20):
        names = collected(session, "--kill-seed", str(seed))
        one = [name.removeprefix("test_one") for name in names if name.startswith("test_one")]
        assert one == [name.removeprefix("test_another") for name in names if name.startswith("test_another")]
        assert sorted(name.strip("[]").split("-")[0] for name in one) == ["go", "java", "python", "rust"]
        assert names[-1] == "test_without_parameters"
        samples.add(tuple(one))
    assert len(samples) > 5
    assert {name for sample in samples for name in sample} == {
        f"[{language}-{kind}]" for language in ("go", "java", "python", "rust") for kind in ("source", "sink")
    }


def test_the_same_seed_gives_the_same_sample(session: pytest.Pytester) -> None:
    assert collected(session, "--kill-seed", "7") == collected(session, "--kill-seed", "7")


def test_everything_runs_where_that_is_asked_for(session: pytest.Pytester) -> None:
    assert len(collected(session, "--every-pair")) == 17


def test_what_is_selected_by_name_runs(session: pytest.Pytester) -> None:
    for name in ("go-source", "go-sink"):
        assert collected(session, "-k", f"test_one and {name}") == [f"test_one[{name}]"]
