"""The report that a run prints at its end fits the terminal."""

import io

import pytest
from rich.console import Console

from headrace.laboratory.chaos.report import print_outcome
from headrace.laboratory.chaos.run import Killed, Outcome
from headrace.laboratory.chaos.schedule import How, Role


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_report_fits_with_several_victims_and_wide_numbers(width: int) -> None:
    kills = [
        Killed((Role.DRIVER,), (4_194_304,), 123_456.7, in_recovery=False, recovered_s=123_456.7, how=How.STALE),
        Killed(tuple(Role), (4_194_304,) * len(Role), 123_456.7, in_recovery=True, recovered_s=1.0),
    ]
    out = io.StringIO()
    print_outcome(Console(file=out, width=width), Outcome(tuple(kills), 10**15, 0, (), 1.0))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert {f"{123_456.7:.1f} s"} <= {line.strip()[:10] for line in lines}
    assert all(any(str(role) in line for line in lines) for role in Role)
