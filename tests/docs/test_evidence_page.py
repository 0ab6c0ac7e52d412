"""Every guarantee of a list has evidence, and the tables of evidence are current."""

import re
from itertools import groupby
from pathlib import Path

import pytest
from scripts import generate_evidence_page
from tests.docs.pages import ROOT, text


def test_tables_are_current() -> None:
    assert not generate_evidence_page.stale(), "run python -m scripts.generate_evidence_page"


def test_each_promise_names_tests_that_exist() -> None:
    promises = generate_evidence_page.promises()
    assert len(promises) > 50
    for promise in promises:
        assert promise.tests, promise.text
        assert [test for test in promise.tests if not (ROOT / test.partition("::")[0]).exists()] == [], promise.text


def test_no_guarantee_of_a_list_lacks_evidence() -> None:
    """A list either names evidence for each of its items, or explains something and names none."""
    proved = {promise.text for promise in generate_evidence_page.promises()}
    lines = text("docs/start/guarantees.md").splitlines()
    lists = ["\n".join(group) for is_list, group in groupby(lines, key=lambda line: line.startswith(("- ", "  "))) if is_list]
    items = [
        [re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", " ".join(item.split())) for item in re.split("(?:^|\n)- ", each)[1:]]
        for each in lists
    ]
    with_evidence = [found for found in items if proved.intersection(found)]
    assert len(with_evidence) > 3
    for found in with_evidence:
        assert set(found) <= proved, set(found) - proved


def test_a_promise_that_is_not_on_the_page_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "evidence.toml"
    file.write_text('["On a cluster"]\n"Nothing of the kind" = ["tests/cluster"]\n')
    monkeypatch.setattr(generate_evidence_page, "EVIDENCE", file)
    with pytest.raises(LookupError, match="0 promises under 'On a cluster' begin with 'Nothing of the kind'"):
        generate_evidence_page.promises()
