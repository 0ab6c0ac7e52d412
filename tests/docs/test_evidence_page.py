"""Every guarantee of a list has evidence: tests/evidence.toml names tests that exist, for promises that the page makes."""

import re
import tomllib
from collections.abc import Iterator
from itertools import groupby

import pytest
from tests.docs.pages import ROOT, functions, text

PAGE = "docs/start/guarantees.md"
EVIDENCE = ROOT / "tests/evidence.toml"


def plain(block: str) -> str:
    """A paragraph, an item of a list or a row of a table on one line, without links; of a row, its first two cells."""
    words = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", " ".join(block.split()).removeprefix("- "))
    return ": ".join(cell.strip() for cell in words.strip("|").split("|")[:2]) if words.startswith("|") else words


def blocks() -> dict[str, list[str]]:
    """What stands under each heading of the page, block by block."""
    sections = [section.partition("\n") for section in re.split(r"^## ", text(PAGE), flags=re.MULTILINE)[1:]]
    return {heading: [plain(block) for block in re.split(r"\n\n|\n(?=- |\|)", body)] for heading, _, body in sections}


def evidence() -> Iterator[tuple[str, str, list[str]]]:
    """Each promise with evidence: its heading, its first words and its tests."""
    for heading, promises in tomllib.loads(EVIDENCE.read_text()).items():
        for beginning, tests in promises.items():
            yield heading, beginning, tests


def proved() -> set[str]:
    """The promises with evidence, as they stand on the page."""
    page = blocks()
    found = set()
    for heading, beginning, _ in evidence():
        (promise,) = [block for block in page[heading] if block.startswith(beginning)] or [f"nothing begins with {beginning!r}"]
        found.add(promise)
    return found


def test_each_promise_with_evidence_is_on_the_page_once() -> None:
    assert [promise for promise in proved() if promise.startswith("nothing begins with")] == []
    assert len(proved()) == len(list(evidence())) > 50


@pytest.mark.parametrize("heading", sorted({heading for heading, _, _ in evidence()}))
def test_each_promise_names_tests_that_exist(heading: str) -> None:
    for beginning, tests in ((beginning, tests) for under, beginning, tests in evidence() if under == heading):
        assert tests, beginning
        for test in tests:
            path, _, name = test.partition("::")
            assert (ROOT / path).exists(), f"{beginning}: {test}"
            assert not name or name in functions(path), f"{beginning}: {test}"


def test_no_guarantee_of_a_list_lacks_evidence() -> None:
    """A list either names evidence for each of its items, or explains something and names none."""
    items = [
        [plain(item) for item in re.split(r"(?:^|\n)- ", "\n".join(lines))[1:]]
        for is_list, lines in groupby(text(PAGE).splitlines(), key=lambda line: line.startswith(("- ", "  ")))
        if is_list
    ]
    with_evidence = [found for found in items if proved().intersection(found)]
    assert len(with_evidence) > 3
    for found in with_evidence:
        assert set(found) <= proved(), set(found) - proved()


def test_every_fault_test_is_evidence_of_a_guarantee() -> None:
    named = {test.partition("::")[0] for _, _, tests in evidence() for test in tests}
    named |= set(re.findall(r"tests/[\w/]+/test_\w+\.py", text("docs/internals/evidence.md")))
    folders = ("tests/faults", "tests/exactly_once", "tests/sdk/languages")
    modules = [path for folder in folders for path in (ROOT / folder).glob("test_*.py")]
    in_languages = "tests.sdk.languages.deaths"
    faults = {
        str(path.relative_to(ROOT)) for path in modules if path.parent.name != "languages" or in_languages in path.read_text()
    }
    assert len(faults) > 20
    assert faults <= named, "a fault test that the evidence does not name"
