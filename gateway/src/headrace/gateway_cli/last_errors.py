"""Lines about last errors: what, how long ago, at what time of day, and whether it is over."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from headrace.gateway_cli.problems import one_line
from headrace.terminal import ago_text


def last_error_lines(rows: Sequence[Mapping[str, Any]], key: str) -> Iterator[Text]:
    """Yields a line for each part of a status document that had an error."""
    for row in rows:
        if (error := row["last_error"]) is not None:
            yield last_error_line(f"{row[key]}: last error", row["last_error_age_ms"], error["message"], is_over=error["is_over"])


def last_error_line(of: str, age_ms: int, message: str, *, is_over: bool) -> Text:
    """Returns a line about one error, dim if it is over."""
    over = ", is over" if is_over else ""
    return Text(f"  {one_line(f'{of} {ago_text(age_ms)}{over}: {message}')}", style="dim" if is_over else "yellow")
