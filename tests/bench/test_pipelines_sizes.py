"""What `headrace bench pipelines` measures by default, and with --long."""

from dataclasses import asdict

import pytest

from headrace.laboratory.bench.pipelines import run as pipelines
from headrace.laboratory.bench.pipelines.sizes import LONG, QUICK, SHORT
from headrace.laboratory.commands.bench_parts import PIPELINES_LONG_PARTS, PIPELINES_PARTS, pipelines_parts


def test_the_parts_that_cannot_be_short_run_only_with_long() -> None:
    assert pipelines_parts(long=True) == PIPELINES_PARTS
    assert set(PIPELINES_PARTS) - set(pipelines_parts(long=False)) == set(PIPELINES_LONG_PARTS)


def test_a_part_that_only_runs_with_long_has_the_same_size_without_it() -> None:
    of_these = ("restart", "small_batch", "memory", "curve")
    long, short = ({name: size for name, size in asdict(sizes).items() if name.startswith(of_these)} for sizes in (LONG, SHORT))
    assert long == short != {}


def test_the_number_of_keys_is_the_same_in_a_short_run() -> None:
    assert (SHORT.words, SHORT.restart_keys) == (LONG.words, LONG.restart_keys)


def test_no_part_is_larger_in_a_shorter_run() -> None:
    for shorter, longer in ((QUICK, SHORT), (SHORT, LONG)):
        for name, size in asdict(longer).items():
            if isinstance(size, int):
                assert getattr(shorter, name) <= size, name


@pytest.mark.parametrize(
    ("whole", "quick", "long", "targets"),
    [(True, False, False, ["<= 600"]), (True, False, True, [""]), (True, True, False, []), (False, False, False, [])],
)
def test_a_whole_run_says_how_long_it_took(
    monkeypatch: pytest.MonkeyPatch, whole: bool, quick: bool, long: bool, targets: list[str]
) -> None:
    monkeypatch.setattr(pipelines, "run_parts", lambda *_, **__: ([], {}))
    figures, _ = pipelines.run([], quick, print, whole=whole, long=long, with_peers=False)
    assert [figure.target for figure in figures if figure.name == "whole_run_s"] == targets
