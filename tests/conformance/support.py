"""The kit's verdict on an SDK's example, beside what docs/reference/support.md says of it."""

import json

from scripts.support_table import PAGE, RUNS, TITLES, column, shown
from tests.conformance.kit import Verdict


def assert_as_published(language: str, kind: str, verdict: Verdict) -> None:
    """Stores a run of the kit for `scripts/support_table.py`, and compares it with the page.

    Args:
        language: Of the SDK, such as `go`.
        kind: `source` or `sink`.
        verdict: The kit's verdict on its example, with all checks.
    """
    RUNS.mkdir(parents=True, exist_ok=True)
    (RUNS / f"{language}-{kind}.json").write_text(json.dumps(verdict.document))
    found, published = column(verdict.document), shown(PAGE.read_text(), kind).get(language, {})
    different = {name: (published.get(name), cell) for name, cell in found.items() if published.get(name) != cell}
    assert not different, (
        f"docs/reference/support.md, {kind} of {TITLES[language]}: (published, found) are {different}; if that is right, run: "
        "python -m scripts.support_table"
    )
