"""The tables of how connectors behave with unusual input follow the marks on their tests."""

import re
from pathlib import Path

import pytest
from scripts.behaviours import Behaviour, behaviours, rows
from tests.docs.pages import ROOT, text

FOUND = behaviours(ROOT / "tests")
PAGES = sorted(path.stem for path in (ROOT / "docs/reference/connectors").glob("*.md"))

MODULE = """
import pytest

CASES = [pytest.param(1, marks=pytest.mark.behaviour("kafka", "one", "reads it")), 2]

@pytest.mark.parametrize("case", CASES)
def test_cases(case): ...

@pytest.mark.behaviour("kafka", "two", "skips " "it")
@pytest.mark.parametrize("case", [pytest.param(3, marks=[pytest.mark.behaviour("tcp", "three", "ends")])])
async def test_more(case): ...

@pytest.mark.behaviour("kafka", "four", "waits")
class TestMachine:
    @pytest.mark.behaviour("kafka", "five", "waits, too")
    def test_it(self): ...
"""


def module(folder: Path, source: str) -> list[Behaviour]:
    """The text of the marks of a module."""
    (folder / "test_it.py").write_text(source)
    return behaviours(folder, folder)


def test_marks_are_found_wherever_they_are(tmp_path: Path) -> None:
    assert module(tmp_path, MODULE) == [
        Behaviour("kafka", "one", "reads it", "test_it.py::test_cases"),
        Behaviour("kafka", "two", "skips it", "test_it.py::test_more"),
        Behaviour("tcp", "three", "ends", "test_it.py::test_more"),
        Behaviour("kafka", "four", "waits", "test_it.py::TestMachine"),
        Behaviour("kafka", "five", "waits, too", "test_it.py::TestMachine::test_it"),
    ]


@pytest.mark.parametrize(
    "arguments", ['"kafka", "one"', '"kafka", "one", f"{2}"', '"kafka", "one", does="x"', '"kafka", "", "x"']
)
def test_a_mark_that_is_not_three_texts_is_told_with_its_line(tmp_path: Path, arguments: str) -> None:
    with pytest.raises(ValueError, match=r"test_it.py:2: behaviour wants three texts"):
        module(tmp_path, f"import pytest\n@pytest.mark.behaviour({arguments})\ndef test_it(): ...\n")


def test_tests_that_show_the_same_share_an_item_and_none_contradicts_another() -> None:
    one = [Behaviour("kafka", "a null", "reads it", test) for test in ("a::b", "a::c", "a::b")]
    assert rows("kafka", one) == ["- **a null**: reads it"]
    alike = [*one, Behaviour("kafka", "a gap", "skips it", "a::d"), Behaviour("kafka", "a zero", "reads it", "a::e")]
    assert rows("kafka", alike) == ["- **a null; a zero**: reads it", "- **a gap**: skips it"]
    with pytest.raises(ValueError, match="d::e: kafka does something else with 'a null' in a::b"):
        rows("kafka", [*one, Behaviour("kafka", "a null", "skips it", "d::e")])


def test_every_page_of_a_connector_has_its_table() -> None:
    assert [page for page in PAGES if f"<!-- behaviour: {page} -->" not in text(f"docs/reference/connectors/{page}.md")] == []
    assert {one.page for one in FOUND} == set(PAGES)


def test_the_texts_fit_into_a_list() -> None:
    assert [one for one in FOUND if re.search(r"[*\n]|\.$", one.meets + one.does)] == []
