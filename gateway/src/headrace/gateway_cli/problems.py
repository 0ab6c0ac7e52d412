"""What is wrong, for people: each part in trouble with its first cause, since when, and the remedy."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from headrace.terminal import duration_text

MAX_LINES = 20
"""How many problems are shown; the JSON document has more."""
_MAX_TEXT = 300


def problem_lines(document: Mapping[str, Any], now: datetime | None = None, limit: int = MAX_LINES) -> Iterator[Text]:
    """Yields the problems of a status document, in lines.

    Args:
        document: The document.
        now: The time that the ages of problems are counted to; None for now.
        limit: How many problems are shown.
    """
    problems = document["problems"]
    if not problems:
        yield Text("All is well.", style="green")
        return
    count = document["problems_in_all"]
    yield Text(f"{count:,} problem{'s' if count != 1 else ''}", style="bold red")
    roots = {problem["part"] for problem in problems if problem["root"] == problem["part"]}
    now = now or datetime.now(UTC)
    for problem in problems[:limit]:
        yield from _lines(problem, now, roots)
    if count > limit:
        yield Text(f"  and {count - min(limit, len(problems)):,} more", style="red")


def age_ms(problem: Mapping[str, Any], now: datetime) -> int:
    """Returns for how long a part has been in trouble, in milliseconds."""
    since = datetime.fromisoformat(problem["since"].replace("Z", "+00:00"))
    return max(0, int((now - since).total_seconds())) * 1000


def one_line(text: str, longest: int = _MAX_TEXT) -> str:
    """Returns a text of another process on one line: cut if long, with spaces for what a terminal would not just show."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return printable if len(printable) <= longest else f"{printable[:longest]}..."


def _lines(problem: Mapping[str, Any], now: datetime, roots: set[str]) -> Iterator[Text]:
    """Yields the lines of a problem. The cause and the remedy stand once, at the root."""
    line = Text("  ").append(one_line(problem["part"]), style="bold red")
    line.append(f" for {duration_text(age_ms(problem, now))}: ")
    follows = problem["root"] != problem["part"]
    if follows and problem["root"] in roots:
        yield line.append(f"because of {one_line(problem['root'])}")
        return
    cause = f"{problem['root']}: {problem['cause']}" if follows else problem["cause"]
    yield line.append(one_line(cause))
    yield Text(f"      {one_line(problem['remedy'])}", style="dim")
