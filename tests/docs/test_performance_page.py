"""Tables of the page about performance come from the JSON of named runs."""

import pytest
from scripts import generate_performance_page
from scripts.generate_performance_page import PAGE, RUNS, filled


def test_the_tables_are_those_of_the_runs() -> None:
    assert not generate_performance_page.stale(), "run python -m scripts.generate_performance_page"


def test_each_run_has_a_table() -> None:
    named = [path.stem for path in RUNS.glob("*.json")]
    assert named
    assert [name for name in named if f": {name} -->" not in PAGE.read_text()] == []


@pytest.mark.parametrize("kind", ["figures", "profile"])
def test_a_figure_that_is_typed_into_a_table_is_replaced(kind: str) -> None:
    table = f"<!-- {kind}: profile -->\n| typed | 1 |\n<!-- end -->\n"
    assert "typed" not in filled(table)
    assert filled(filled(table)) == filled(table)
