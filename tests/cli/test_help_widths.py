"""Helps fit a terminal of 80 columns, with examples that can be copied: of every command and connector, in every program."""

import shlex
from collections.abc import Iterator

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.test_roles import PROGRAMS

from headrace.cli import cli
from headrace.terminal.examples import WIDTH, broken


def helps() -> Iterator[click.Context]:
    """The context of each command, groups too."""
    for name, program in {"headrace": cli, **PROGRAMS}.items():
        yield from _below(click.Context(program, info_name=name))


def _below(ctx: click.Context) -> Iterator[click.Context]:
    yield ctx
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            inner = ctx.command.get_command(ctx, name)
            assert inner is not None
            yield from _below(click.Context(inner, info_name=name, parent=ctx))


@pytest.mark.parametrize("program", ["headrace", *PROGRAMS])
def test_no_line_of_a_help_is_wider_than_a_terminal(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    found = [ctx for ctx in helps() if ctx.find_root().info_name == program]
    assert len(found) > 3
    wide = [(ctx.command_path, line) for ctx in found for line in ctx.get_help().splitlines() if len(line) > WIDTH]
    assert wide == []


def test_an_example_in_a_help_is_for_the_program_that_runs_and_can_be_copied() -> None:
    (ctx,) = (ctx for ctx in helps() if ctx.command_path == "headrace-connectors run kafka-sink")
    example = ctx.get_help().partition("Example:\n")[2].partition("\n\n")[0]
    assert example.splitlines() == [
        "    headrace-connectors run kafka-sink --bootstrap-servers 127.0.0.1:9092 \\",
        "        --topic alerts --sink alerts",
    ]


plain = st.text(st.characters(codec="ascii", categories=["L", "N"], include_characters="-._/"), min_size=1, max_size=20)
quoted = st.lists(plain, min_size=1, max_size=5).map(lambda words: shlex.quote(" ".join(words)))
words = st.lists(plain | quoted | st.sampled_from(["|", ">", "--", "A='b c'"]), min_size=1, max_size=20)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(words, st.integers(0, 8), st.integers(40, 120))
def test_a_broken_line_is_the_same_for_a_shell_and_fits_unless_a_word_does_not(line: list[str], indent: int, width: int) -> None:
    text = " " * indent + " ".join(line)
    lines = broken(text, width)
    # As a shell does.
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(text)
    for one in lines:
        # An option and its value, or a pipe and what it begins.
        assert len(one) <= width or len(shlex.split(one.removesuffix(" \\"))) <= 2, one
    assert len(text) > width or lines == [text]
