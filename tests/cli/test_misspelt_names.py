"""A misspelt name of any part is answered with the name that is perhaps meant, by each command that takes one."""

import asyncio

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.test_eighty_columns import OF_HEADRACE
from tests.cli.test_json_shape import name_of
from tests.gateway.crowded import INSTANCE, PIPELINE, PROCESS, STREAM, crowded

from headrace.cli import cli
from headrace.contract.names import nearest
from headrace.gateway.core.base.errors import UnknownPart
from headrace.gateway.core.control import Caller, unknown

PARTS = {"stream": STREAM, "pipeline": PIPELINE, "sink": "out", "connector": INSTANCE}
CALLS = [
    *((f"{command} {kind}", name) for command in ("pause", "resume") for kind, name in PARTS.items()),
    *((f"forget {name}", name) for name in (STREAM, PIPELINE)),
    ("why", STREAM),
    ("timeline", PIPELINE),
    ("peek", STREAM),
    ("dead-letters list", "out"),
    ("dead-letters replay", "files"),
    ("restart", "files"),
    ("ps --log", PROCESS),
]


async def test_each_command_suggests_the_name_that_is_meant() -> None:
    async with crowded(replays="files") as site:
        for line, name in CALLS:
            words = [*line.removesuffix(f" {name}").split(), f"{name}x", "--gateway", site.address]
            words += ["--source", "again"] if line == "dead-letters replay" else []
            done = await asyncio.to_thread(CliRunner().invoke, cli, words)
            assert done.exit_code in (1, 2), (line, done.output)
            assert done.output.rstrip().endswith(f"; did you mean {name}?"), (line, done.output)


def test_no_command_that_takes_a_name_is_left_out() -> None:
    takes = {
        name_of(root, words)
        for root, words, command in OF_HEADRACE
        if any(isinstance(one, click.Argument) for one in command.params)
    }
    assert takes <= {" ".join(word for word in line.split() if word not in (*PARTS, *PARTS.values())) for line, _ in CALLS}


names = st.text(st.characters(codec="ascii", categories=["L", "N"], include_characters="-._"), min_size=4, max_size=30)


@given(st.lists(names, min_size=1, max_size=30, unique=True), st.data())
def test_a_letter_too_many_is_no_obstacle_and_an_own_name_is_suggested_only_to_who_may_see_it(
    known: list[str], data: st.DataObject
) -> None:
    meant = data.draw(st.sampled_from(known))
    assert nearest(f"{meant}x", known).startswith("; did you mean ")
    error = unknown("pipeline", f"{meant}x", known, Caller("orders", "peer", sees_names=False))
    assert isinstance(error, UnknownPart)
    assert str(error) == f"no pipeline {f'{meant}x'!r}; known: {len(known)} that only the right admin shows"


@pytest.mark.parametrize("name", ["", "x" * 10_000, "orders/\N{SNOWMAN}"])
def test_what_resembles_nothing_gets_no_suggestion(name: str) -> None:
    assert nearest(name, ["totals", "orders/0"] * 5_000) in ("", "; did you mean orders/0?")
