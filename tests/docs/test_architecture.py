"""Each hop that the page about the architecture names is in the code: its file, and its functions."""

import ast
import re
from functools import cache

from tests.docs.pages import ROOT, codes, prose, section, spans, table

PAGE = "docs/internals/architecture.md"
HOPS = "| process | file | function | what happens |"
SPARK = "Spark"
"""In the place of a file: what Spark itself does."""


@cache
def functions(path: str) -> set[str]:
    """The functions and methods that a file defines, methods as `Class.method`."""
    found = set()
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            inner = (child for child in node.body if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))
            found |= {f"{node.name}.{child.name}" for child in inner}
    return found


def hops() -> list[list[str]]:
    """The rows of all tables of hops."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in prose(PAGE).splitlines() if line.startswith("|")]
    return [row for row in rows if len(row) == 4 and (row[1] == SPARK or re.fullmatch(r"`[\w/]+\.py`", row[1]))]


def test_every_hop_is_in_the_code() -> None:
    assert len(hops()) > 50
    for _, file, named, _ in hops():
        if file == SPARK:
            assert not named
            continue
        (path,) = codes(file)
        assert (ROOT / path).is_file(), path
        assert codes(named), path
        assert set(codes(named)) <= functions(path), (path, set(codes(named)) - functions(path))


def test_every_walk_has_hops() -> None:
    walks = [heading for heading in re.findall(r"^## (.+)$", prose(PAGE), re.MULTILINE) if HOPS in section(PAGE, heading)]
    assert len(walks) == 4


def test_functions_that_the_text_names_are_in_the_code() -> None:
    text = " ".join(line for line in prose(PAGE).splitlines() if not line.startswith("|"))
    named = re.findall(r"`(\w+\.\w+)` in `([\w/.]+\.py)`", text)
    assert named
    assert [(name, path) for name, path in named if name not in functions(path)] == []
    assert all((ROOT / span).exists() for span in spans(PAGE) if span.endswith(".py"))


def test_the_glossary_has_each_term_once_and_in_order() -> None:
    terms = [row[0] for row in table(PAGE, "Glossary")]
    assert terms == sorted(set(terms))
