"""Generates docs/reference/support.md from what the conformance kit has found of each SDK's examples.

The tests of the SDKs run the kit, and store what it prints with `--json` in `.build/conformance`. Each compares its run with the
page. This script writes all stored runs into the page; the columns of other languages stay, and what a run with `--only` has not
judged. A table has only the checks that some examples have passed: the page counts the checks that all have passed, and names the
checks that all have skipped.
"""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.conformance.sinks import SINK_CHECKS
from headrace.conformance.sources import SOURCE_CHECKS
from headrace.contract.languages import LANGUAGES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "support.md"
RUNS = ROOT / ".build" / "conformance"
TITLES = {language.name: language.title for language in LANGUAGES.values()}
CHECKS = {
    "source": [check.name for check in SOURCE_CHECKS],
    "sink": [check.name for check in SINK_CHECKS],
}
CELLS = {"passed": "yes", "skipped": "-", "failed": "**fails**", "known failure": "**fails**", "unexpected pass": "yes"}

_SKIPPED = "No example declares what these need: "

Column = Mapping[str, str]
"""The cells of a language, by check."""


def column(document: Mapping[str, Any]) -> Column:
    """Returns what a run of the kit has found, as the page shows it.

    Args:
        document: The output of the kit with `--json`.
    """
    return {result["check"]: CELLS[result["outcome"]] for result in document["result"]["checks"]}


def shown(page: str, kind: str) -> dict[str, Column]:
    """Returns the cells of all checks on the page, by language: a check without a row has passed everywhere."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in _lines(page, kind)]
    cells = {row[0].strip("`"): row[1:] for row in rows[2:]}
    cells |= {name: [CELLS["skipped"]] * len(LANGUAGES) for name in _skipped(page, kind)}
    passed = [CELLS["passed"]] * len(LANGUAGES)
    return {language: {name: cells.get(name, passed)[place] for name in CHECKS[kind]} for place, language in enumerate(LANGUAGES)}


def filled(page: str, runs: Mapping[tuple[str, str], Column]) -> str:
    """Returns the page with the runs of the kit in its tables.

    Args:
        page: The page as it is.
        runs: The columns to write, by language and kind.
    """
    for kind, checks in CHECKS.items():
        columns = {language: dict(cells) for language, cells in shown(page, kind).items()}
        for (language, of), found in runs.items():
            if of == kind:
                columns[language] = columns.get(language, {}) | dict(found)
        rows = {name: [columns[language][name] for language in LANGUAGES] for name in checks}
        passed, skipped = ([name for name, cells in rows.items() if {*cells} == {CELLS[one]}] for one in ("passed", "skipped"))
        unlike = {name: cells for name, cells in rows.items() if name not in {*passed, *skipped}}
        named = f" {_SKIPPED}{', '.join(f'`{name}`' for name in skipped)}." if skipped else ""
        lines = [
            f"All five examples have passed {len(passed)} of {len(rows)} checks.{named}",
            "",
            f"| check | {' | '.join(TITLES.values())} |",
            "|---" * (len(LANGUAGES) + 1) + "|",
            *(f"| `{name}` | {' | '.join(cells)} |" for name, cells in unlike.items()),
        ]
        page = _marked(kind).sub(lambda match, lines=lines: f"{match[1]}\n\n{chr(10).join(lines)}\n\n{match[3]}", page)  # type: ignore[misc]
    return page


def stored() -> dict[tuple[str, str], Column]:
    """Returns the columns of all runs that are stored."""
    found = {}
    for path in sorted(RUNS.glob("*-*.json")):
        language, _, kind = path.stem.partition("-")
        found[language, kind] = column(json.loads(path.read_text()))
    return found


def main() -> int:
    """Writes the page."""
    runs = stored()
    if not runs:
        print(f"there is no run in {RUNS}: run the tests of the SDKs first, with -k rules", file=sys.stderr)
        return 1
    PAGE.write_text(filled(PAGE.read_text(), runs))
    for language in LANGUAGES:
        for kind in CHECKS:
            if (language, kind) not in runs:
                print(f"not run here, so its column stays: {kind} of {TITLES[language]}")
    return 0


def _marked(kind: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- support: {kind} -->)\n(.*?)\n?(<!-- end -->)", re.DOTALL)


def _lines(page: str, kind: str) -> list[str]:
    return [line for line in _text(page, kind).splitlines() if line.startswith("|")]


def _skipped(page: str, kind: str) -> list[str]:
    """Returns the checks that the page lists as skipped for every language."""
    return re.findall(r"`([^`]+)`", _text(page, kind).partition(_SKIPPED)[2].partition("\n")[0])


def _text(page: str, kind: str) -> str:
    match = _marked(kind).search(page)
    assert match is not None, f"{PAGE} has no table of kind {kind}"
    return match[2]


if __name__ == "__main__":
    sys.exit(main())
