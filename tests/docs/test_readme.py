"""The README is short, and figures of the page about performance name their benchmarks."""

import re

import click
from tests.docs.pages import blocks, codes, prose, section, table, text

from headrace.cli import cli

PERFORMANCE = "docs/internals/performance.md"
MAX_LINES = 90


def test_the_readme_has_at_most_90_lines() -> None:
    assert len(text("README.md").splitlines()) <= MAX_LINES


def test_the_programs_of_the_readme_are_short() -> None:
    source, application = ([line for line in block.text.splitlines() if line] for block in blocks("README.md", "python"))
    assert len(source) <= 15
    assert len(application) <= 10


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
            assert codes(row[1]), row
            assert set(codes(row[1])) <= parts_of(benchmark[1]), row
