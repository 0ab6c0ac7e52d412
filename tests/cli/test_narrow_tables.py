"""What commands print fits a terminal of any width, and names in it stay whole."""

import io
import os
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from tests.cli.statuses import BUSY, gateway_that_says
from tests.test_layers import imported_by, modules

from headrace.cli import cli
from headrace.protocol.v1.admin_pb2 import GetStatusResponse
from headrace.terminal import print_text
from headrace.terminal.tables import FittingTable, plain_table

LONG = "warehouse-of-the-northern-region.orders-with-returns"
"""Names such as a company has; a pattern of streams adds to it."""
WIDTHS = (40, 80, 120, 200)


def drawn(table: Any, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(table)
    return out.getvalue().splitlines()


words = st.text(st.characters(codec="ascii", categories=["L", "N"], include_characters="-._/"), min_size=1, max_size=30)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(words, min_size=2, max_size=8), st.lists(st.lists(words, min_size=8, max_size=8), max_size=4), st.integers(40, 200)
)
def test_no_line_is_wider_than_the_terminal_and_every_cell_is_whole(
    columns: list[str], rows: list[list[str]], width: int
) -> None:
    table = FittingTable(*columns, title="title")
    for row in rows:
        table.add_row(*row[: len(columns)])
    lines = drawn(table, width)
    assert max(map(len, lines), default=0) <= width
    for row in rows:
        for cell in row[: len(columns)]:
            assert cell == "-" or any(cell in line for line in lines), (cell, lines)


sentences = st.lists(words, max_size=12).map(" ".join)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(words, min_size=1, max_size=5),
    st.lists(st.tuples(st.lists(words, min_size=5, max_size=5), sentences), max_size=4),
    st.integers(40, 200),
)
def test_sentences_are_broken_between_words_and_every_other_cell_is_whole(
    columns: list[str], rows: list[tuple[list[str], str]], width: int
) -> None:
    table = FittingTable(*columns, "found", prose=True)
    for names, sentence in rows:
        table.add_row(*names[: len(columns)], sentence)
    lines = drawn(table, width)
    assert max(map(len, lines), default=0) <= width
    for names, sentence in rows:
        for whole in (*names[: len(columns)], *sentence.split()):
            assert whole == "-" or any(whole in line for line in lines), (whole, lines)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(sentences, min_size=1, max_size=4), st.integers(0, 6), st.integers(40, 200))
def test_prose_is_broken_between_words_and_a_pipe_gets_whole_lines(lines: list[str], indent: int, width: int) -> None:
    text = "\n".join(" " * indent + line for line in lines)
    command = click.Command("say", callback=lambda: print_text(text))
    broken = CliRunner().invoke(command, env={"COLUMNS": str(width)}).stdout
    assert broken.split() == text.split()
    assert max(map(len, broken.splitlines())) <= width
    assert CliRunner().invoke(command, env={"COLUMNS": None}).stdout == f"{text}\n"


def test_a_row_of_wide_numbers_becomes_a_paragraph_with_its_sentence_on_a_line_of_its_own() -> None:
    table = FittingTable("process", "messages", "", prose=True)
    table.add_row(LONG, f"{10**18:,}", "away since noon")
    assert [line.strip() for line in drawn(table, 60)] == [LONG, "messages 1,000,000,000,000,000,000", "away since noon"]


def test_figures_without_a_name_have_the_names_of_all_columns() -> None:
    table = plain_table("#quotes", "#orders", has_row_names=False)
    table.add_row(f"{10**18:,}", f"{10**18:,}")
    assert [line.strip() for line in drawn(table, 50)] == [
        "quotes 1,000,000,000,000,000,000, orders",
        "1,000,000,000,000,000,000",
    ]
    assert [line.split() for line in drawn(table, 80)] == [["quotes", "orders"], [f"{10**18:,}"] * 2]


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize(
    "line", ["connector list", "connector describe kafka", "connector describe postgresql", "conformance source --list"]
)
def test_lists_of_what_is_installed_fit(line: str, width: int) -> None:
    result = CliRunner().invoke(cli, line.split(), env={"COLUMNS": str(width)})
    assert result.exit_code == 0, result.output
    # The lines before the table are whole, so that the example can be copied.
    table = result.output.partition("\n\n")[2] if "describe" in line else result.output
    assert max(map(len, table.splitlines())) <= width, table


def renamed(status: GetStatusResponse) -> GetStatusResponse:
    """A status whose parts have long names."""
    found = GetStatusResponse()
    found.CopyFrom(status)
    for stream in found.streams:
        stream.stream = f"{LONG}/{stream.stream.partition('/')[2]}"
    for pipeline in found.pipelines:
        pipeline.pipeline = f"{LONG}-{pipeline.pipeline}"
    for sink in found.sinks:
        sink.sink = f"{LONG}-{sink.sink}"
    return found


@pytest.mark.parametrize("width", WIDTHS)
def test_the_status_fits_with_long_names(width: int) -> None:
    long = renamed(BUSY)
    with gateway_that_says(long) as address:
        result = CliRunner().invoke(cli, ["status", "--gateway", address], env={"COLUMNS": str(width)})
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert max(map(len, lines)) <= width
    if width < len(LONG) + 20:
        return  # Such a name has to be broken.
    names = (
        [each.stream for each in long.streams] + [each.pipeline for each in long.pipelines] + [each.sink for each in long.sinks]
    )
    for name in names:
        assert any(name in line for line in lines), (name, lines)


def test_contexts_fit_with_long_names(tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CONTEXTS", os.path.join(tmp_path, "contexts.toml"))
    assert CliRunner().invoke(cli, ["context", "add", LONG, "--gateway", f"{LONG}.example:7433"]).exit_code == 0
    result = CliRunner().invoke(cli, ["context", "list"], env={"COLUMNS": "80"})
    assert max(map(len, result.output.splitlines())) <= 80
    assert LONG in result.output
    assert f"{LONG}.example:7433" in result.output


def test_no_other_table_is_drawn() -> None:
    """Whatever draws a table of its own draws it wider than the terminal, or breaks names in it."""
    assert {module for module, path in modules().items() if "rich.table" in imported_by(path)} == {"headrace.terminal.tables"}
