"""The figures of a benchmark, as a table."""

import io
import time

import pytest
from rich.console import Console

from headrace.laboratory.bench.figures import Figure, Progress, itself, table


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_table_fits_with_a_long_name_and_wide_numbers(width: int) -> None:
    figures = [
        Figure("names_disk_full_at_the_sink_s", 9.3, "s", target="<= 10", met=True),
        Figure("vs_transform_with_state_200k", 1e15, "messages/s", 1e15, ">= 1", met=False),
    ]
    out = io.StringIO()
    Console(file=out, width=width).print(table("headrace bench pipelines", figures))
    lines = out.getvalue().splitlines()
    assert lines[0].strip() == "headrace bench pipelines"
    assert max(map(len, lines)) <= width
    for whole in (*(figure.name for figure in figures), f"{10**15:,}", "messages/s"):
        assert any(whole in line for line in lines), (whole, lines)


@pytest.mark.parametrize(("values", "ratio"), [([4.0, 2.0], 0.5), ([1.0, 3.0, 1.0], 3.0), ([2.0, 2.0, 8.0, 8.0], 1.0)])
def test_a_figure_is_compared_with_itself_in_turns(values: list[float], ratio: float) -> None:
    (found,) = itself("rate", values, "messages/s")
    assert (found.name, found.unit, found.met) == ("rate_itself", "messages/s", None)
    assert found.ratio == pytest.approx(ratio)


def test_a_figure_that_was_measured_once_is_not_compared_with_itself() -> None:
    assert [*itself("rate", [1.0], "messages/s")] == []


def test_a_part_for_which_there_is_no_time_is_left_out_and_named() -> None:
    said = list[str]()
    late, early = Progress(said.append, ends_at=time.monotonic()), Progress(said.append, ends_at=time.monotonic() + 3_600)
    assert early.begins("latency", takes_s=60)
    assert not early.begins("curves", takes_s=7_200)
    assert not late.begins("latency")
    assert Progress(said.append).begins("latency", takes_s=1e9)
    assert (early.not_begun, late.not_begun) == (["curves"], ["latency"])
    assert [line.split(" is left out")[0] for line in said] == ["curves", "latency"]
