"""Fills the quotes of tested programs in the pages. With --check, fails if one is stale.

A quote is a fenced block below `<!-- quote: FILE -->`, which quotes the whole file, or below the following comment, which
quotes blocks of the file by the beginnings of their first lines:

    <!-- quote: FILE
    func (f folder) Prepare(
    func (f folder) Commit(
    -->
"""

import argparse
import re
import sys
import textwrap
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_QUOTE = re.compile(r"(<!-- quote: (\S+)(.*?)-->\n\n```\w+\n).*?(^```$)", re.DOTALL | re.MULTILINE)


def pages() -> list[Path]:
    """Returns the pages that quote programs."""
    return [page for page in sorted((ROOT / "docs").rglob("*.md")) if _QUOTE.search(page.read_text())]


def filled(text: str) -> str:
    """Returns a page with all its quotes up to date.

    Raises:
        LookupError: A quoted block is not in its file.
    """

    def quote(match: re.Match[str]) -> str:
        lines = (ROOT / match[2]).read_text().splitlines()
        starts = [line.strip() for line in match[3].splitlines() if line.strip()]
        quoted = [block(lines, start, match[2]) for start in starts] or ["\n".join(lines)]
        return match[1] + "\n\n".join(quoted) + "\n" + match[4]

    return _QUOTE.sub(quote, text)


def block(lines: list[str], start: str, file: str) -> str:
    """Returns the block whose first line begins with `start`, without its indentation.

    It ends with the next line that closes a bracket at the indentation of the first, or before the next statement there.
    """
    found = [number for number, line in enumerate(lines) if line.strip().startswith(start)]
    if len(found) != 1:
        raise LookupError(f"{file}: {len(found)} lines begin with {start!r}; quote a line that is there once")
    first = found[0]
    indentation = _indentation(lines[first])
    comments = list(takewhile(lambda line: _is_comment(line) or not line.strip(), lines[first:]))
    head = lines[first : first + len(comments) + 1]
    rest = lines[first + len(head) :]
    inner = list(takewhile(lambda line: not line.strip() or _indentation(line) > indentation or line.strip()[0] in "{)", rest))
    last = rest[len(inner)] if len(inner) < len(rest) else ""
    closing = [last] if last.strip().startswith(("}", "]")) else []
    return textwrap.dedent("\n".join([*head, *inner, *closing])).rstrip()


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith(("//", "/*", "*", "@", "#["))


def stale() -> list[str]:
    """Returns the pages whose quotes are out of date."""
    return [str(page.relative_to(ROOT)) for page in pages() if page.read_text() != filled(page.read_text())]


def main() -> int:
    """Fills or checks the quotes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with code 1 if a page is stale")
    check = parser.parse_args().check
    found = stale()
    if check and found:
        print(f"not current: {', '.join(found)}; run: {sys.executable} scripts/quote_code.py", file=sys.stderr)
        return 1
    for page in found:
        (ROOT / page).write_text(filled((ROOT / page).read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
