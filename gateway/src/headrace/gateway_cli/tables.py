"""The style of every table that a command prints."""

from rich import box

from headrace.terminal.tables import FittingTable


def new_table(title: str, *columns: str) -> FittingTable:
    """Creates an empty table; columns whose names begin with # are numeric."""
    table = FittingTable(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, header_style="dim")
    for column in columns:
        table.add_column(column.removeprefix("#"), justify="right" if column.startswith("#") else "left", overflow="fold")
    return table
