"""Names and texts of others reach a terminal without the characters that steer it."""

import ast
import io
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.live import Live
from rich.table import Table
from rich.text import Text

import headrace
from headrace.contract.printable import printable
from headrace.gateway.config import Log
from headrace.gateway.logs import configure_logging
from headrace.logs.output import ConsoleFormatter
from headrace.terminal import Failure, print_line
from headrace.terminal.tables import PrintableConsole

HOSTILE = "name\x1b]0;title\x07\x1b[2J\x9b31m\x7f\r\u202eevil\u2066\ud800[/red][link=x]:smile:"


def is_harmless(text: str) -> bool:
    return all(character.isprintable() or character in "\n\t" for character in text)


@given(st.text())
def test_what_is_made_printable_is_and_what_is_stays(text: str) -> None:
    found = printable(text)
    assert is_harmless(found)
    assert found == text or not is_harmless(text)
    found.encode()


def test_escapes_show_what_was_there() -> None:
    assert printable("a\x1b[31m\x9b\u202e\ud800ü\n") == "a\\x1b[31m\\x9b\\u202e\\ud800ü\n"
    assert printable("a\nb", keep="") == "a\\nb"


def test_tables_texts_and_live_views_show_it_so() -> None:
    out = io.StringIO()
    console = PrintableConsole(file=out, width=200)
    table = Table(HOSTILE, caption=HOSTILE)
    table.add_row(Text(HOSTILE))
    table.add_row(HOSTILE)
    console.print(table, HOSTILE, Text(HOSTILE))
    assert is_harmless(out.getvalue())
    assert "[/red][link=x]:smile:" in out.getvalue()
    live = io.StringIO()
    with Live(table, console=PrintableConsole(file=live, force_terminal=True, width=200), auto_refresh=False):
        pass
    for part in ("\x1b]0;title", "\x1b[2J", "\x07", "\x9b", "\u202e"):
        assert part not in live.getvalue()


def test_lines_and_failures_show_it_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_line(HOSTILE)
    print_line(HOSTILE, err=True)
    Failure(HOSTILE).show()
    shown = capsys.readouterr()
    assert is_harmless(shown.out)
    assert is_harmless(shown.err)
    assert "\\x1b]0;title" in shown.out


@pytest.mark.usefixtures("logs_of_its_own")
def test_logs_for_people_show_it_so() -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        record = logging.LogRecord(HOSTILE, logging.ERROR, "", 0, HOSTILE, (), (ValueError, error, error.__traceback__))
    assert is_harmless(ConsoleFormatter().format(record))
    out, root = io.StringIO(), logging.getLogger()
    configure_logging(Log(format="console"), out)
    root.handle(record)
    root.error("said", extra={"reason": HOSTILE})
    assert "\\x1b]0;title" in out.getvalue()
    assert is_harmless(out.getvalue())


def test_commands_print_by_the_terminals_own_functions() -> None:
    shown_by = {"output.py", "program.py"}
    for root in headrace.__path__:
        for path in Path(root).rglob("*.py"):
            if path.name in shown_by or "scaffold" in path.parts:
                continue
            names = {ast.unparse(node) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
            assert "click.echo" not in names, f"{path}: print by headrace.terminal.print_line"
