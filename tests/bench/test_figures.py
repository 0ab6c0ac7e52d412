"""The figures of a benchmark, as a table."""

import io

import pytest
from rich.console import Console

from headrace.laboratory.bench.figures import Figure, table


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
