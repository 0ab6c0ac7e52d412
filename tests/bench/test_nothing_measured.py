"""A part of a benchmark in which nothing happened is an error that names it, not a traceback or a figure."""

import json
import statistics
from collections.abc import Callable, Iterator
from typing import NoReturn

import pytest

from headrace.cli import cli
from headrace.laboratory.bench import core
from headrace.laboratory.bench.figures import Figure, NothingMeasured, Progress, measured
from headrace.laboratory.bench.rig import acknowledged_rate
from headrace.laboratory.bench.site import Run, overhead
from headrace.laboratory.bench.sources import quantile_ms
from headrace.terminal import run_program


def of_no_message() -> Iterator[Figure]:
    return overhead("console_overhead", "ten clients", lambda observed: Run(0.0, 0.0), lambda line: None, quick=True)


def of_no_time() -> Iterator[Figure]:
    yield Figure("rate", sum([1]) / sum([]), "messages/s")


def of_no_latency() -> Iterator[Figure]:
    yield Figure("p50", statistics.median([]), "ms")


def of_no_acknowledgement() -> Iterator[Figure]:
    yield Figure("rate", acknowledged_rate([]), "messages/s")


def of_one_acknowledgement() -> Iterator[Figure]:
    yield Figure("rate", acknowledged_rate([(1.0, 10)]), "messages/s")


def of_no_quantile() -> Iterator[Figure]:
    yield Figure("p99", quantile_ms([], 0.99), "ms")


def without_a_number() -> Iterator[Figure]:
    yield Figure("fine", 1.0, "ms")
    yield Figure("p99", float("nan"), "ms")


PARTS = [
    of_no_message,
    of_no_time,
    of_no_latency,
    of_no_acknowledgement,
    of_one_acknowledgement,
    of_no_quantile,
    without_a_number,
]


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_measured_nothing_is_an_error_that_names_it(part: Callable[[], Iterator[Figure]]) -> None:
    with pytest.raises(NothingMeasured, match="console_overhead has measured nothing"):
        measured("console_overhead", part, Progress(lambda line: None))


def test_figures_that_were_measured_are_returned_and_shown_at_once() -> None:
    said = list[str]()
    progress = Progress(said.append)

    def part() -> Iterator[Figure]:
        yield Figure("rate", 2.0, "messages/s", 4.0, ">= 3", False)
        assert said == ["  rate: 2.00 messages/s, baseline 4.00, target >= 3 missed"]
        yield Figure("p50", 1.0, "ms")

    assert measured("part", part, progress) == progress.figures
    assert [figure.name for figure in progress.figures] == ["rate", "p50"]


def test_a_figure_of_more_rounds_replaces_the_one_of_fewer() -> None:
    progress = Progress(lambda line: None)

    def part() -> Iterator[Figure]:
        for rounds in (1.0, 2.0, 3.0):
            yield Figure("rate", rounds, "messages/s")
            yield Figure("p50", rounds, "ms")

    assert measured("part", part, progress) == progress.figures == [Figure("rate", 3.0, "messages/s"), Figure("p50", 3.0, "ms")]


def test_a_part_that_fails_leaves_the_figures_before() -> None:
    progress = Progress(lambda line: None)
    with pytest.raises(NothingMeasured):
        measured("part", without_a_number, progress)
    assert progress.figures == [Figure("fine", 1.0, "ms")]


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (TimeoutError("waited 60 s for a commit"), 1, "waited 60 s for a commit"),
        (SystemExit(143), 143, "it was told to stop"),
        (KeyboardInterrupt(), 130, "it was told to stop"),
    ],
)
def test_a_benchmark_that_ends_early_prints_what_it_has_measured(
    error: BaseException, code: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(parts: tuple[str, ...], quick: bool, progress: Progress) -> NoReturn:
        progress.take(Figure("rate", 2.0, "messages/s"))
        raise error

    monkeypatch.setattr(core, "run", run)
    monkeypatch.setattr("headrace.laboratory.commands.bench_report.end_at_sigterm", lambda: None)
    for options in (["--json"], []):
        monkeypatch.setattr("sys.argv", ["headrace", "bench", "core", *options])
        with pytest.raises(SystemExit) as ended:
            run_program(cli, "headrace")
        assert ended.value.code == code
        out, err = capsys.readouterr()
        assert "rate: 2.00 messages/s" in err
        if options:
            document = json.loads(out)
            assert [figure["name"] for figure in document["result"]["figures"]] == ["rate"]
            assert (document["ok"], text in document["error"]) == (False, True)
        else:
            assert "messages/s" in out
