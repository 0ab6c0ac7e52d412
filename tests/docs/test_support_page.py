"""The page about SDKs has a cell for each check and language, and the script writes what the kit has found there."""

import json
from pathlib import Path

import pytest
from scripts import support_table
from scripts.support_table import CELLS, CHECKS, TITLES, column, filled, shown
from tests.docs.pages import text

PAGE = "docs/reference/support.md"


@pytest.mark.parametrize("kind", CHECKS)
def test_every_check_has_a_cell_for_each_language(kind: str) -> None:
    # Whether it is what the kit finds is seen by the test that runs the kit for the language.
    columns = shown(text(PAGE), kind)
    assert columns.keys() == TITLES.keys()
    for language, cells in columns.items():
        assert list(cells) == CHECKS[kind], language
        assert set(cells.values()) <= set(CELLS.values()), language


def test_tables_are_as_the_script_writes_them() -> None:
    assert filled(text(PAGE), {}) == text(PAGE)


def test_a_run_replaces_its_own_column_only() -> None:
    before = text(PAGE)
    name = CHECKS["sink"][0]
    document = {"result": {"checks": [{"check": check, "outcome": "passed"} for check in CHECKS["sink"]]}}
    document["result"]["checks"][0]["outcome"] = "known failure"
    after = filled(before, {("go", "sink"): column(document)})

    assert shown(after, "sink")["go"][name] == "**fails**"
    assert shown(after, "sink") | {"go": {}} == shown(before, "sink") | {"go": {}}
    assert shown(after, "source") == shown(before, "source")


def test_stored_runs_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support_table, "RUNS", tmp_path)
    assert support_table.main() == 1
    document = {"result": {"checks": [{"check": "token", "outcome": "skipped"}]}}
    (tmp_path / "rust-source.json").write_text(json.dumps(document))
    assert support_table.stored() == {("rust", "source"): {"token": "-"}}
