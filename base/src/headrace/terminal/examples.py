"""Help whose examples fit 80 columns: a longer command line continues on the next one, as a shell permits it."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click

WIDTH = 80
"""The columns of a terminal that nobody has made wider."""
_MORE_INDENT = "    "
_CONTINUES = " \\"
_HEADING = re.compile(r"\s*Examples?\b.*:$")
_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|[^\s'"])+""")
_HYPHEN = re.compile(r"(?<=\w)-(?=\w)")
_UNBROKEN = "\u2011"
"""Stands for a hyphen while lines are broken: a name such as `headrace-connectors` stays whole."""
_PIPE = re.compile(r"[|>]|>>")


class ExamplesFormatter(click.HelpFormatter):
    """Formats a help for the program that runs it, with examples that fit.

    Args:
        typed: Replaces the commands in a text with the names under which the running program offers them.
        options: The options of click's formatter.
    """

    def __init__(self, typed: Callable[[str], str], **options: Any) -> None:
        super().__init__(**options)
        self._typed = typed

    def write_text(self, text: str) -> None:
        """Writes paragraphs."""
        super().write_text("\n".join(_fitting(self._whole(text).splitlines(), WIDTH - self.current_indent)))

    def write_dl(self, rows: Iterable[tuple[str, str]], *options: Any, **more: Any) -> None:
        """Writes options or commands, each with its description."""
        super().write_dl([(first, self._whole(second)) for first, second in rows], *options, **more)

    def getvalue(self) -> str:
        """Returns the help."""
        return super().getvalue().replace(_UNBROKEN, "-")

    def _whole(self, text: str) -> str:
        return _HYPHEN.sub(_UNBROKEN, self._typed(text))


def broken(line: str, width: int = WIDTH) -> list[str]:
    r"""Breaks a command line into lines that fit, each but the last with ` \` at its end.

    It is broken between words, never within quotes, nor between an option and its value. A word that is too long stays whole.
    """
    indent = line[: len(line) - len(line.lstrip())]
    lines = [indent]
    for part in _parts(_WORD.findall(line)):
        longer = f"{lines[-1]} {part}" if lines[-1].strip() else f"{lines[-1]}{part}"
        if len(longer) + len(_CONTINUES) <= width or not lines[-1].strip():
            lines[-1] = longer
        else:
            lines[-1] += _CONTINUES
            lines.append(f"{indent}{_MORE_INDENT}{part}")
    return lines if len(line) > width else [line]


def _parts(words: list[str]) -> Iterator[str]:
    """Joins each option and its value, or what follows a pipe."""
    part: list[str] = []
    for word, following in zip(words, [*words[1:], "-"], strict=True):
        part.append(word)
        joins = word.startswith("-") or _PIPE.fullmatch(word)
        if not joins or following.startswith("-") or _PIPE.fullmatch(following):
            yield " ".join(part)
            part = []


def _fitting(lines: list[str], width: int) -> Iterator[str]:
    is_example = False
    for line in lines:
        is_example = bool(line) and (is_example or _HEADING.fullmatch(line) is not None)
        yield from broken(line, width) if is_example else [line]
