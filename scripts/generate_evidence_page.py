"""Generates the tables in docs/internals/evidence.md from docs/start/guarantees.md. With --check, fails if they are stale.

In docs/start/guarantees.md, a comment `<!-- shown by: TESTS -->` ends a line of a list or a table, or a paragraph.
"""

import re
import sys
import textwrap
from dataclasses import dataclass

from scripts.generated_page import ROOT, generate, is_stale

PAGE = ROOT / "docs" / "internals" / "evidence.md"
PROMISES = ROOT / "docs" / "start" / "guarantees.md"

_TABLES = re.compile(r"(<!-- evidence -->\n).*?(<!-- end -->)", re.DOTALL)
_SHOWN_BY = re.compile(r"\s*<!-- shown by: (.+?) -->")
_BEGINNING = 70
"""How many characters of a promise the page shows."""
_BLOCK = re.compile(r"\n\n|\n(?=- |\|)")


@dataclass(frozen=True)
class Promise:
    """A promise, the heading that it stands under, and what shows it."""

    heading: str
    text: str
    evidence: str


def promises() -> list[Promise]:
    """The promises of the page that have evidence, in order."""
    found = []
    for section in re.split(r"^## ", PROMISES.read_text(), flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        for block in _BLOCK.split(body):
            if comment := _SHOWN_BY.search(block):
                found.append(Promise(heading, _plain(_SHOWN_BY.sub("", block)), comment[1]))
    return found


def filled(text: str) -> str:
    """Returns the page with its tables up to date."""
    lines: list[str] = []
    heading = ""
    for promise in promises():
        if promise.heading != heading:
            heading = promise.heading
            lines += ["", f"### {heading}", "", "| promise | shown by |", "|---|---|"]
        lines.append(f"| {promise.text} | {promise.evidence} |")
    return _TABLES.sub(lambda match: "\n".join([match[1].rstrip(), *lines, "", match[2]]), text)


def stale() -> bool:
    """Whether a table of the page is out of date."""
    return is_stale(PAGE, filled)


def _plain(block: str) -> str:
    """How a promise begins, with whole code spans, as a cell: of a row of a table the first words of its first two cells."""
    words = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", " ".join(block.split()).removeprefix("- "))
    if words.startswith("|"):
        words = ": ".join(cell.strip() for cell in words.strip("|").split("|")[:2])
    first, *others = textwrap.wrap(words, _BEGINNING, break_long_words=False, break_on_hyphens=False)
    if first.count("`") % 2:
        first = first.rpartition("`")[0].rstrip()
    return f"{first} …" if others else first


if __name__ == "__main__":
    sys.exit(generate(PAGE, filled, "scripts.generate_evidence_page", __doc__))
