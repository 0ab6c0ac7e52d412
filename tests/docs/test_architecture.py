"""Each hop that the page about the architecture names is in the code: its file, and its functions."""

import ast
import re
from functools import cache

from tests.docs.pages import ROOT, codes, prose, section, spans, table

PAGE = "docs/internals/architecture.md"
_HOP = re.compile(r"- (?:\*\*[\w ,']+\*\*: )?((?:`[\w.]+`(?:, )?)+) \(`([\w/]+\.(?:py|java))`\): \S.*")


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


def hops(text: str) -> list[tuple[str, list[str]]]:
    """The file and the functions of each item that is a hop."""
    items = [" ".join(item.split()) for item in re.findall(r"^- .*(?:\n  .*)*", text, re.MULTILINE)]
    return [(hop[2], codes(hop[1])) for item in items if (hop := _HOP.fullmatch(item))]


def test_every_hop_is_in_the_code() -> None:
    found = hops(prose(PAGE))
    assert len(found) > 50
    for path, named in found:
        assert (ROOT / path).is_file(), path
        assert named, path
        if path.endswith(".py"):
            assert set(named) <= functions(path), (path, set(named) - functions(path))


def test_every_walk_has_hops() -> None:
    walks = [heading for heading in re.findall(r"^## (.+)$", prose(PAGE), re.MULTILINE) if hops(section(PAGE, heading))]
    assert len(walks) == 4


def test_functions_that_the_text_names_are_in_the_code() -> None:
    text = " ".join(prose(PAGE).split())
    named = re.findall(r"`(\w+\.\w+)` in `([\w/.]+\.py)`", text)
    assert named
    assert [(name, path) for name, path in named if name not in functions(path)] == []
    assert all((ROOT / span).exists() for span in spans(PAGE) if span.endswith(".py"))


def test_the_glossary_has_each_term_once_and_in_order() -> None:
    terms = [row[0] for row in table(PAGE, "Glossary")]
    assert terms == sorted(set(terms))
