"""The last line of a soak agrees with its verdicts."""

import io

import pytest
from rich.console import Console

from headrace.laboratory.soak.memory import Memory
from headrace.laboratory.soak.report import document, print_outcome, summary
from headrace.laboratory.soak.run import Outcome, Plan
from headrace.laboratory.soak.series import Judged, Series
from headrace.laboratory.soak.slope import Slope, Verdict, judge

PLAN = Plan(seconds=1800, warm_up_s=600, bound=8, rate=2000, keys=10_000, master="local[2]")
FLAT, UNSURE, GROWS = Slope(2, 1, 3), Slope(20, 1, 40), Slope(28, 20, 35)


def outcome(*slopes: Slope | None, measured_s: float = PLAN.seconds) -> Outcome:
    judged = []
    for number, slope in enumerate(slopes):
        series = Series("worker", 100 + number)
        series.note(700, Memory(50, 50))
        judged.append(Judged(series, slope, PLAN.bound, judge(slope, PLAN.bound)))
    return Outcome(tuple(judged), measured_s, 10, 0, 5, stopped=measured_s < PLAN.seconds)


@pytest.mark.parametrize(
    ("slopes", "said"),
    [
        ((FLAT, FLAT), "nothing grows by more than 8 MB an hour; steepest worker (100), +2.0 MB an hour"),
        (
            (FLAT, UNSURE),
            "no significant growth over 30.0 minutes; only a longer run can decide about worker (101) with +20.0 MB an hour",
        ),
        ((FLAT, UNSURE, GROWS), "memory grows over 30.0 minutes: worker (102) by +28.0 MB an hour"),
        ((None,), "30.0 minutes are too short for a verdict"),
    ],
)
def test_the_summary(slopes: tuple[Slope | None, ...], said: str) -> None:
    assert summary(outcome(*slopes), PLAN) == said


def test_the_summary_of_a_run_that_was_stopped() -> None:
    assert summary(outcome(FLAT, measured_s=90), PLAN).startswith("stopped after 1.5 of 30 minutes; no growth was found")
    assert summary(outcome(GROWS, measured_s=900), PLAN).startswith("memory grows over 15.0 minutes")


def test_json_has_what_the_verdict_rests_on() -> None:
    flat, short = document(outcome(FLAT, None), PLAN)["processes"]
    assert (flat["mb_per_hour"], flat["low_mb_per_hour"], flat["high_mb_per_hour"], flat["verdict"]) == (2, 1, 3, Verdict.FLAT)
    assert (short["mb_per_hour"], short["samples"], short["verdict"]) == (None, 1, Verdict.TOO_SHORT)


@pytest.mark.parametrize("width", [40, 80, 160])
def test_the_report_fits_with_a_long_name_and_wide_numbers(width: int) -> None:
    series = Series("worker-of-the-northern-region", 4_194_304)
    series.note(700, Memory(10**9, 10**9))
    judged = Judged(series, Slope(10**9, -(10**9), 10**9), PLAN.bound, Verdict.GROWS)
    out = io.StringIO()
    print_outcome(Console(file=out, width=width), Outcome((judged,), PLAN.seconds, 10**15, 0, 10**9, stopped=False), PLAN)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    for whole in (series.name, str(series.pid), f"{10**9:,}.0", f"+{10**9:,}.0"):
        assert any(whole in line for line in lines), (whole, lines)
