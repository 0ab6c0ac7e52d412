"""The style of every table that a command prints."""

from typing import Any

from rich import box

from headrace.terminal.tables import FittingTable


def new_table(title: str, *columns: str) -> FittingTable:
    """Creates an empty table; columns whose names begin with # are numeric."""
    look: dict[str, Any] = {"box": box.SIMPLE_HEAD, "title_justify": "left", "title_style": "bold", "header_style": "dim"}
    return FittingTable(*columns, title=title, **look)
