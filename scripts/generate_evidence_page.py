"""Generates the tables in docs/internals/evidence.md from scripts/evidence.toml. With --check, fails if they are stale.

The file names the tests of each promise on docs/start/guarantees.md: a line of a list or a table, or a paragraph.
"""

import re
import sys
import tomllib
from dataclasses import dataclass

from scripts.generated_page import ROOT, generate, is_stale

PAGE = ROOT / "docs" / "internals" / "evidence.md"
PROMISES = ROOT / "docs" / "start" / "guarantees.md"
EVIDENCE = ROOT / "scripts" / "evidence.toml"

_TABLES = re.compile(r"(<!-- evidence -->\n).*?(<!-- end -->)", re.DOTALL)
_BLOCK = re.compile(r"\n\n|\n(?=- |\|)")


@dataclass(frozen=True)
class Promise:
    """A promise: the heading that it stands under, its text on the page, how it begins, and the tests that show it."""

    heading: str
    text: str
    beginning: str
    tests: tuple[str, ...]


def promises() -> list[Promise]:
    """The promises that have evidence, in the order of the file.

    Raises:
        LookupError: The beginning of a promise stands under its heading never, or more than once.
    """
    page = blocks()
    found = []
    for heading, named in tomllib.loads(EVIDENCE.read_text()).items():
        for beginning, tests in named.items():
            texts = [text for text in page.get(heading, []) if text.startswith(beginning)]
            if len(texts) != 1:
                raise LookupError(f"{EVIDENCE.name}: {len(texts)} promises under {heading!r} begin with {beginning!r}")
            found.append(Promise(heading, texts[0], beginning, tuple(tests)))
    return found


def blocks() -> dict[str, list[str]]:
    """By heading, each paragraph, line of a list and row of a table on the page of the guarantees, as plain text."""
    sections = [section.partition("\n") for section in re.split(r"^## ", PROMISES.read_text(), flags=re.MULTILINE)[1:]]
    return {heading: [_plain(block) for block in _BLOCK.split(body) if block.strip()] for heading, _, body in sections}


def filled(text: str) -> str:
    """Returns the page with its tables up to date."""
    lines: list[str] = []
    heading = ""
    for promise in promises():
        if promise.heading != heading:
            heading = promise.heading
            lines += ["", f"### {heading}", "", "| promise | shown by |", "|---|---|"]
        lines.append(f"| {promise.beginning.removesuffix(':')} | {', '.join(f'`{test}`' for test in promise.tests)} |")
    return _TABLES.sub(lambda match: "\n".join([match[1].rstrip(), *lines, "", match[2]]), text)


def stale() -> bool:
    """Whether a table of the page is out of date."""
    return is_stale(PAGE, filled)


def _plain(block: str) -> str:
    """A block without links, bullet and lines; of a row of a table, its first two cells."""
    words = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", " ".join(block.split()).removeprefix("- "))
    if words.startswith("|"):
        words = ": ".join(cell.strip() for cell in words.strip("|").split("|")[:2])
    return words


if __name__ == "__main__":
    sys.exit(generate(PAGE, filled, "scripts.generate_evidence_page", __doc__))
