"""The screen: health first, then the rows of one view, and the keys. Lines of text with styles; only ASCII is added."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from headrace.gateway_cli.live.rows import Row, Shown
from headrace.gateway_cli.live.state import State
from headrace.gateway_cli.live.views import VIEWS, fitting
from headrace.gateway_cli.problems import one_line, problem_lines
from headrace.terminal import bytes_text, counted, duration_text

_BAD = frozenset({"trouble", "stalled", "source stalled"})
_POOR = frozenset({"detached", "waits", "no credit", "paused"})
_KEYS = "q quit  1-4 view  up/down page  </> sort  r reverse  / filter"


@dataclass(frozen=True, slots=True)
class Screen:
    """A screen.

    Attributes:
        lines: Its lines; as many as the terminal has, or fewer.
        rows: How many rows pass the filter.
        page: How many of them fit.
    """

    lines: list[Text]
    rows: int
    page: int


def screen(status: Shown | None, state: State, width: int, height: int, stale: str = "") -> Screen:
    """Returns the screen of a terminal.

    Args:
        status: The status that is shown; None before the gateway has answered for the first time.
        state: The user's choices.
        width: The columns of the terminal.
        height: Its lines.
        stale: Why what is shown is stale; empty if it is not.
    """
    if status is None:
        lines = [Text(one_line(stale or "waits for the gateway"), style="bold"), Text(""), Text("q quit")]
        return Screen([_cut(line, width) for line in lines][:height], 0, 1)
    lines = [_headline(status.document, stale), *_health(status.document, width, height * 2 // 5), _tabs(status.document, state)]
    page = max(1, height - len(lines) - 2)
    chosen = state.chosen(status.rows(state.view))
    top = max(0, min(state.top, len(chosen) - page))
    columns = fitting(state.view, width)
    lines.append(_titles(state, columns))
    lines += [_row(row, columns, is_stale=bool(stale)) for row in chosen[top : top + page]]
    lines += [Text("")] * (height - len(lines) - 1)
    lines = [*lines[: height - 1], _footer(state, len(chosen), top, page)]
    return Screen([_cut(line, width) for line in lines], len(chosen), page)


def _health(document: Mapping[str, Any], width: int, height: int) -> list[Text]:
    """Returns what is wrong, in lines of a width, up to a number of lines."""
    lines = [part for line in problem_lines(document) for part in _wrapped(line, width)]
    if len(lines) <= height:
        return lines
    rest = Text(f"  ... headrace status shows all: {counted(document['problems_in_all'], 'problem')}", style="red")
    return [*lines[: max(0, height - 1)], rest]


def _wrapped(line: Text, width: int) -> Iterator[Text]:
    """Yields a text in lines of a width, all of them indented as the first one."""
    indent = len(line.plain) - len(line.plain.lstrip())
    console = Console(width=width)
    for part in line[indent:].wrap(console, max(1, width - indent)):
        yield Text(" " * indent).append_text(part)


def _headline(document: Mapping[str, Any], stale: str) -> Text:
    gateway = document["gateway"]
    line = Text(f"gateway {gateway['address']} {gateway['version']}  up {duration_text(gateway['uptime_ms'])}", style="bold")
    line.append(f"  buffer {bytes_text(gateway['buffered_bytes'])} of {bytes_text(gateway['buffer_limit_bytes'])}")
    if stale:
        return Text("STALE ", style="bold reverse").append(f" {one_line(stale)}  ").append_text(line)
    return line.append("  draining" if gateway["draining"] else "")


def _tabs(document: Mapping[str, Any], state: State) -> Text:
    counts = {view: len(document[view]) for view in ("pipelines", "streams", "sinks")}
    counts["connectors"] = len(document["sessions"]) + len(document["sink_sessions"])
    line = Text()
    for number, view in enumerate(VIEWS, 1):
        is_shown = view == state.view
        text = f"{number} {view} {counts[view]:,}"
        line.append(f"[{text}]" if is_shown else f" {text} ", style="bold reverse" if is_shown else "")
        line.append(" ")
    return line


def _titles(state: State, columns: list[tuple[Any, int]]) -> Text:
    sorted_by = VIEWS[state.view][state.order.column].title
    titles = []
    for column, width in columns:
        mark = ("v" if state.order.reverse else "^") if column.title == sorted_by else ""
        title = f"{mark}{column.title}"[:width]
        titles.append(f"{title:>{width}}" if column.is_number else f"{title:<{width}}")
    return Text("  ".join(titles), style="underline")


def _row(row: Row, columns: list[tuple[Any, int]], *, is_stale: bool) -> Text:
    line = Text(style="dim" if is_stale else "")
    for index, (column, width) in enumerate(columns):
        value = one_line(column.text(row[column.title]))
        text = value if len(value) <= width else f"{value[: width - 1]}~"
        style = "bold red" if value in _BAD else "yellow" if value in _POOR else ""
        line.append("  " if index else "")
        line.append(f"{text:>{width}}" if column.is_number else f"{text:<{width}}", style="" if column.is_number else style)
    return line


def _footer(state: State, rows: int, top: int, page: int) -> Text:
    if state.is_typing:
        return Text(f"filter: {state.filter}_  {counted(rows, 'row')}  (Enter keeps it, Escape clears it)", style="bold")
    where = f"{top + 1 if rows else 0:,}-{min(rows, top + page):,} of {rows:,}"
    kept = f"  filter: {state.filter} (Escape)" if state.filter else ""
    return Text(f"{where}{kept}  {_KEYS}", style="dim")


def _cut(line: Text, width: int) -> Text:
    line = line.copy()
    line.truncate(width, overflow="crop")
    return line
