"""The views: which columns each has, how wide they are, and how a value is shown."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.terminal import bytes_text, duration_text


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a view.

    Attributes:
        title: Its title, and the key of its values in a row.
        width: Its width in characters; 0 takes what the others leave.
        text: Shows a value.
        is_number: Whether it is aligned to the right, and sorted from the largest at first.
    """

    title: str
    width: int
    text: Callable[[Any], str] = str
    is_number: bool = False


def count_text(count: float | None) -> str:
    """Formats a number in at most six characters: `97`, `12,345`, `1.2M`."""
    if count is None:
        return "-"
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if count >= size:
            return f"{count / size:.1f}{unit}" if count < 100 * size else f"{count / size:.0f}{unit}"
    return f"{count:,.0f}" if count >= 10 or count == int(count) else f"{count:.1f}"


def _age(milliseconds: int) -> str:
    return "-" if milliseconds < 0 else duration_text(milliseconds)


def _share(fraction: float | None) -> str:
    return "-" if fraction is None else f"{fraction:.0%}"


def _number(title: str, width: int = 7) -> Column:
    return Column(title, width, count_text, is_number=True)


VIEWS: dict[str, tuple[Column, ...]] = {
    "pipelines": (
        Column("pipeline", 0),
        Column("state", 14),
        Column("batch", 7, _age, is_number=True),
        Column("stage", 12),
        _number("rate", 6),
        _number("lag"),
        Column("last call", 9, _age, is_number=True),
        _number("batches"),
        Column("lag bytes", 9, bytes_text, is_number=True),
    ),
    "streams": (
        Column("stream", 0),
        Column("state", 14),
        _number("in", 6),
        _number("out", 6),
        _number("lag"),
        Column("oldest", 7, _age, is_number=True),
        Column("credit", 6, _share, is_number=True),
        Column("lag bytes", 9, bytes_text, is_number=True),
        Column("owner", 16),
    ),
    "connectors": (
        Column("connector", 0),
        Column("serves", 14),
        Column("state", 14),
        Column("since", 7, _age, is_number=True),
        Column("credit", 6, _share, is_number=True),
        _number("errors", 6),
        Column("sdk", 14),
        Column("last error", 40),
    ),
    "sinks": (
        Column("sink", 0),
        Column("state", 14),
        Column("mode", 16),
        _number("instances", 9),
        _number("rate", 6),
        _number("pending"),
        _number("refused"),
        Column("failure", 40),
    ),
}
"""The columns of each view, the most important ones first: what does not fit is left out from the end."""

_FIRST = 14
"""The least width of the first column."""


def fitting(view: str, width: int) -> list[tuple[Column, int]]:
    """Returns the columns of a view that fit into a width, and how wide each is."""
    first, *others = VIEWS[view]
    left, chosen = width - _FIRST, list[Column]()
    for column in others:
        if left < column.width + 2:
            break
        left -= column.width + 2
        chosen.append(column)
    return [(first, _FIRST + left), *((column, column.width) for column in chosen)]
