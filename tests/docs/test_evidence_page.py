"""Every guarantee of a list has evidence, and the tables of evidence are current."""

from itertools import groupby

from scripts import generate_evidence_page
from tests.docs.pages import text

SHOWN_BY = "<!-- shown by: "


def test_tables_are_current() -> None:
    assert not generate_evidence_page.stale(), "run python -m scripts.generate_evidence_page"


def test_each_comment_of_the_guarantees_is_a_row() -> None:
    promises = generate_evidence_page.promises()
    assert len(promises) == text("docs/start/guarantees.md").count(SHOWN_BY) > 50
    assert all(promise.text and "`" in promise.evidence for promise in promises)


def test_no_guarantee_of_a_list_lacks_evidence() -> None:
    """A list either names evidence for each of its items, or explains something and names none."""
    lines = text("docs/start/guarantees.md").splitlines()
    lists = [list(group) for is_list, group in groupby(lines, key=lambda line: line.startswith(("- ", "  "))) if is_list]
    proved = [found for found in lists if any(SHOWN_BY in line for line in found)]
    assert len(proved) > 3
    for found in proved:
        items = [line for line in found if line.startswith("- ")]
        assert len(items) == sum(SHOWN_BY in line for line in found), items
