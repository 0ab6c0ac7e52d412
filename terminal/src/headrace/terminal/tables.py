"""Tables that fit the terminal: where there is no room for a row on one line, each row is a paragraph."""

from collections.abc import Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

_UNBOUNDED = 100_000
_INDENT = 4
_PROSE = 30
"""The least width of a column of sentences."""
_NOTHING = ("", "-")


class FittingTable(Table):
    """A table whose cells are texts. Names in it are never broken to make columns fit: a name can then be copied.

    A row that becomes a paragraph begins with its first cell. The others follow, each after the name of its column; those with
    nothing in them are left out. Sentences follow on lines of their own.

    Args:
        columns: The names of the columns.
        prose: Whether the last column has sentences, which are broken between words.
        options: More options of the table.
    """

    def __init__(self, *columns: str, prose: bool = False, **options: Any) -> None:
        super().__init__(*columns, **options)
        self._has_prose = prose
        for column in self.columns[: len(columns) - prose]:
            column.no_wrap = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Renders the table, or its rows as paragraphs."""
        needed = self.__rich_measure__(console, options.update_width(_UNBOUNDED)).maximum
        if self._has_prose:
            widest = max((_width(console, cell) for cell in self.columns[-1].cells), default=0)
            needed -= max(0, widest - _PROSE)
        if needed <= options.max_width:
            yield from super().__rich_console__(console, options)
        else:
            yield from self._paragraphs(console)

    def _paragraphs(self, console: Console) -> Iterator[Text | Padding]:
        if self.title:
            yield Text(_plain(self.title), style="bold")
        names = [_plain(column.header) for column in self.columns]
        for first, *others in zip(*(column.cells for column in self.columns), strict=True):
            # The first column may be a mark, such as a star.
            prose = others.pop() if self._has_prose else ""
            cells = [(name, cell) for name, cell in zip(names[1:], others, strict=False) if _plain(cell) not in _NOTHING]
            head = _one_line(first) if _plain(first) else Text("")
            yield Padding(head, (0, 0, 0, _INDENT // 2))
            pairs = [Text.assemble((f"{name} ", "dim"), _one_line(cell)) for name, cell in cells]
            if pairs:
                yield Padding(Text(", ").join(pairs), (0, 0, 0, _INDENT))
            if _plain(prose) not in _NOTHING:
                yield Padding(Text(_plain(prose)), (0, 0, 0, _INDENT))


def _width(console: Console, cell: object) -> int:
    return console.measure(cell if isinstance(cell, Text) else str(cell)).maximum


def _plain(cell: object) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


def _one_line(cell: object) -> Text:
    text = cell.copy() if isinstance(cell, Text) else Text(str(cell))
    text.plain = " ".join(text.plain.split("\n"))
    return text
