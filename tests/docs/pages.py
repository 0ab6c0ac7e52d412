"""The pages of the documentation, and what is on them."""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PATTERNS = ("*.md", "docs/**/*.md", "*/README.md", "sdk/*/README.md", "conformance/*/README.md")
PAGES = tuple(sorted({path.relative_to(ROOT).as_posix() for pattern in _PATTERNS for path in ROOT.glob(pattern)}))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_ITEM = re.compile(
    r"(?P<name>\*\*.+?\*\*|\[?`[^`]+`(?:\]\([^)]*\))?(?:(?:, | and | or )\[?`[^`]+`(?:\]\([^)]*\))?)*)"
    r"(?: \((?P<more>(?:`[^`]*`|\([^()]*\)|[^`()])*)\))?(?:: (?P<text>.*))?"
)
_ANCHOR = re.compile(r'<a id="([\w-]+)"></a>')


@dataclass(frozen=True)
class Block:
    """A fenced block, and the heading that it stands under."""

    language: str
    text: str
    heading: str


def text(page: str) -> str:
    """A whole page."""
    return (ROOT / page).read_text()


def blocks(page: str, language: str) -> list[Block]:
    """The blocks of a language, in order."""
    whole = text(page)
    found = []
    for match in _FENCE.finditer(whole):
        above = [heading[2] for heading in _HEADING.finditer(_without_fences(whole[: match.start()]))]
        found.append(Block(match[1], match[2], above[-1] if above else ""))
    return [block for block in found if block.language == language]


def prose(page: str) -> str:
    """A page without its blocks."""
    return _without_fences(text(page))


def spans(page: str) -> list[str]:
    """What stands in backticks within the text."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def section(page: str, heading: str) -> str:
    """What stands under a heading, up to the next one of any level."""
    parts = re.split(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[heading]


def table(page: str, heading: str) -> list[list[str]]:
    """The rows of the first table under a heading, without its head, or the items of its lists; cells as they are written.

    An item is `- name: text`, or `- name (more): text`, where the name is in backticks or bold, and becomes two or three cells.
    """
    lines = [line for line in section(page, heading).splitlines() if line.startswith("|")]
    if lines:
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    listed = re.findall(r"^- (.*(?:\n  .*)*)", section(page, heading), re.MULTILINE)
    found = [_ITEM.fullmatch(" ".join(item.split())) for item in listed]
    items = [[item["name"].replace("**", ""), item["more"] or "", item["text"] or ""] for item in found if item]
    has_more = any(more for _, more, _ in items)
    return items if has_more else [[name, words] for name, _, words in items]


def codes(cell: str) -> list[str]:
    """What stands in backticks in a cell."""
    return re.findall(r"`([^`]+)`", cell)


def anchors(page: str) -> set[str]:
    """The anchors of a page: the anchors of its headings, as GitHub makes them, and the ones that it sets."""
    headings = (match[2] for match in _HEADING.finditer(prose(page)))
    made = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return made | set(_ANCHOR.findall(prose(page)))


@cache
def functions(path: str) -> set[str]:
    """The functions that a file defines."""
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def _without_fences(whole: str) -> str:
    return _FENCE.sub("", whole)
