"""The console of Rich, and tables that fit it: where there is no room for a row on one line, each row is a paragraph."""

from collections.abc import Iterable, Iterator
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from headrace.contract.printable import printable

_UNBOUNDED = 100_000
_INDENT = 4
_PROSE = 30
"""The least width of a column of sentences."""
_NOTHING = ("", "-")


class FittingTable(Table):
    """A table whose cells are texts. Names in it are never broken to make columns fit: a name can then be copied.

    A row that becomes a paragraph begins with its first cell. The others follow, each after the name of its column; empty ones
    are left out. Sentences follow on lines of their own.

    Args:
        columns: The names of the columns; columns whose name begins with # have numbers.
        prose: Whether the last column has sentences, which are broken between words.
        has_row_names: Whether the first column names the rows; otherwise a paragraph has the name of this column, too.
        options: More options of the table.
    """

    def __init__(self, *columns: str, prose: bool = False, has_row_names: bool = True, **options: Any) -> None:
        super().__init__(**options)
        self._has_prose, self._is_named = prose, has_row_names
        for at, name in enumerate(columns, 1):
            justify: JustifyMethod = "right" if name.startswith("#") else "left"
            self.add_column(name.removeprefix("#"), justify=justify, no_wrap=not (prose and at == len(columns)))

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
        for row, cells in zip(self.rows, zip(*(column.cells for column in self.columns), strict=True), strict=True):
            style = row.style or ""
            others = [*cells]
            prose = others.pop() if self._has_prose else ""
            if self._is_named:
                # The first column may be a mark, such as a star.
                yield Padding(_one_line(others[0]), (0, 0, 0, _INDENT // 2), style=style)
            pairs = [
                Text.assemble((f"{name} ", "dim"), _one_line(cell))
                for name, cell in [*zip(names, others, strict=False)][self._is_named :]
                if _plain(cell) not in _NOTHING
            ]
            if pairs:
                yield Padding(Text(", ").join(pairs), (0, 0, 0, _INDENT), style=style)
            if _plain(prose) not in _NOTHING:
                yield Padding(Text(_plain(prose)), (0, 0, 0, _INDENT), style=style)


def plain_table(*columns: str, **options: Any) -> FittingTable:
    """Creates an empty table without lines, whose columns have bold names."""
    return FittingTable(*columns, **{"box": None, "pad_edge": False, "header_style": "bold", **options})


def _width(console: Console, cell: object) -> int:
    return console.measure(cell if isinstance(cell, Text) else str(cell)).maximum


def _plain(cell: object) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


def _one_line(cell: object) -> Text:
    text = cell.copy() if isinstance(cell, Text) else Text(str(cell))
    text.plain = " ".join(text.plain.split("\n"))
    return text


def new_table(title: str, *columns: str) -> FittingTable:
    """Creates an empty table; columns whose names begin with # are numeric."""
    look: dict[str, Any] = {"box": box.SIMPLE_HEAD, "title_justify": "left", "title_style": "bold", "header_style": "dim"}
    return FittingTable(*columns, title=title, **look)


class PrintableConsole(Console):
    """Writes unprintable characters as escapes. Its own controls, such as the controls of a live view, remain.

    Text is never markup: a name in brackets would be taken for a style, or be an error.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Renders a string. It is replaced here too, so that its width is known before it is laid out."""
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Renders anything into segments."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)
