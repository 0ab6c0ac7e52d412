"""What commands print at a gateway with long names and long errors fits 80 columns: each command is found here by itself."""

import asyncio

import click
import pytest
from click.testing import CliRunner
from tests.captured_logs import capture_logs
from tests.cli.test_json_shape import CALLS, name_of
from tests.gateway.crowded import PIPELINE, STREAM, crowded

WIDTH = 80
LONG_WORD = 60
"""A word that is longer may begin a line that is too long: names are not broken, so that they can be copied."""
NAMES = {"stream": STREAM, "pipeline": PIPELINE, "name": PIPELINE, "sink": "out", "kind": "pipeline"}
MORE = {
    "peek": ["--limit", "1"],
    "drain": ["--timeout-seconds", "1"],
    "dead-letters replay": ["--source", "again", "--timeout-seconds", "1"],
}
LAST = "drain"
"""After it, there is nothing to show."""
OF_HEADRACE = sorted(
    (param.values for param in CALLS if param.values[0].name == "cli"), key=lambda found: name_of(found[0], found[1]) == LAST
)


def wide(output: str) -> list[str]:
    """The lines that are too wide."""

    def fits(line: str) -> bool:
        words = line.split()
        return len(line.rstrip()) <= WIDTH or (len(words) <= 2 and max(map(len, words)) > LONG_WORD)

    return [line for line in output.splitlines() if not fits(line)]


async def test_no_line_of_any_command_is_wider_than_80_columns() -> None:
    found: dict[str, list[str]] = {}
    shown: set[str] = set()
    # The gateway of this process would log between what commands print.
    with capture_logs():
        async with crowded() as site:
            for root, words, command in OF_HEADRACE:
                name = name_of(root, words)
                arguments = [NAMES[str(one.name)] for one in command.params if isinstance(one, click.Argument) and one.required]
                line = [*words, *arguments, *MORE.get(name, []), "--gateway", site.address]
                done = await asyncio.to_thread(CliRunner().invoke, root, line, env={"COLUMNS": str(WIDTH)})
                assert done.exception is None or isinstance(done.exception, SystemExit), (name, done.exception)
                if done.exit_code == 0 and done.stdout:
                    shown.add(name)
                if lines := wide(done.stdout):
                    found[name] = lines
    assert {"status", "ps", "events", "why", "timeline", "dead-letters list", "peek", "pause"} <= shown
    assert not found, "\n".join(line for lines in found.values() for line in lines)


@pytest.mark.parametrize(
    ("line", "fits"), [("x" * 80, True), ("x " * 41, False), ("in " + "x" * 90, True), ("a b " + "x" * 90, False)]
)
def test_a_line_is_too_wide_if_it_can_be_broken(line: str, fits: bool) -> None:
    assert (not wide(line)) == fits
