"""The README is short, and its figures are those of the page about performance."""

import re

import click
from tests.docs.pages import blocks, codes, prose, section, table, text

from headrace.cli import cli

PERFORMANCE = "docs/performance.md"
MOST_LINES = 120


def figures(page: str) -> list[list[str]]:
    """The rows of all tables of figures: what was measured, the value, and what it is compared with."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return [row[:3] for heading in headings if "| figure |" in section(page, heading) for row in table(page, heading)]


def test_the_readme_has_at_most_120_lines() -> None:
    assert len(text("README.md").splitlines()) <= MOST_LINES


def test_the_programs_of_the_readme_are_short() -> None:
    source, application = ([line for line in block.text.splitlines() if line] for block in blocks("README.md", "python"))
    assert len(source) <= 15
    assert len(application) <= 10


def test_the_figures_of_the_readme_are_those_of_the_page() -> None:
    shown, known = figures("README.md"), figures(PERFORMANCE)
    assert shown
    assert [row for row in shown if row not in known] == []


def parts_of(benchmark: str) -> set[str]:
    """What `headrace bench BENCHMARK --only` takes."""
    bench = cli.get_command(click.Context(cli), "bench")
    assert isinstance(bench, click.Group)
    command = bench.get_command(click.Context(bench), benchmark)
    assert command is not None, benchmark
    (only,) = (parameter.type for parameter in command.params if "--only" in parameter.opts)
    assert isinstance(only, click.Choice)
    return set(only.choices)


def test_every_figure_names_a_part_of_its_benchmark() -> None:
    headings = [heading for heading in re.findall(r"^## (.+)$", prose(PERFORMANCE), re.MULTILINE) if table(PERFORMANCE, heading)]
    assert len(headings) == 8
    for heading in headings:
        benchmark = re.search(r"`headrace bench (\w+)`", section(PERFORMANCE, heading))
        assert benchmark is not None, heading
        for row in table(PERFORMANCE, heading):
            named = {code.removeprefix("--only ") for code in codes(row[3])} - {"headrace soak"}
            assert named <= parts_of(benchmark[1]), row
            assert codes(row[3]), row
