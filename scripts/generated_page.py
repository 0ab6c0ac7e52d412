"""The common part of scripts that generate tables of pages, or whole files."""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def is_stale(page: Path, filled: Callable[[str], str]) -> bool:
    """Whether a table of a page is out of date; `filled` returns the page's text with all tables up to date."""
    return page.read_text() != filled(page.read_text())


def generate(pages: Mapping[Path, Callable[[str], str]], module: str, about: str | None) -> int:
    """Runs the command line of a script: generates the tables of pages, or checks them. Returns the exit code."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with code 1 if a page is stale")
    check = parser.parse_args().check
    stale = [page for page, filled in pages.items() if is_stale(page, filled)]
    for page in stale:
        if check:
            print(f"not current: {page.relative_to(ROOT)}; run: {sys.executable} -m {module}", file=sys.stderr)
        else:
            page.write_text(pages[page](page.read_text()))
    return int(check and bool(stale))
