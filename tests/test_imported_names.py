"""Each name that a module imports from another one of this project exists.

In the product, mypy finds such names. Tests are not typed: without this, a heavy test would fail once it runs.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("src", "*/src", "sdk/python/src", "examples/*")
"""Where packages of `headrace` are."""
GENERATED = "headrace.protocol.v1"
IMPORT = re.compile(r"^ *from ((?:headrace|tests|scripts)[\w.]*) import (\([^)]*\)|.+)$", re.MULTILINE)
"""Found in the text, also in programs that tests keep as text: to parse all tests takes several times as long."""
NAME = re.compile(r"(?:^|[(,])\s*(\w+)")
COMMENT = re.compile(r"#.*")
REPLACED = re.compile(r"setattr\(\s*\"(headrace(?:\.\w+)+)\"")
"""What a test replaces by its whole name."""


@cache
def files() -> Mapping[str, Path]:
    """All modules that tests can import, by their names."""
    roots = [folder for pattern in SOURCES for folder in ROOT.glob(pattern)]
    paths = [(root, path) for root in roots for path in (root / "headrace").rglob("*.py")]
    paths += [(ROOT, path) for folder in ("tests", "scripts") for path in (ROOT / folder).rglob("*.py")]
    return {".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path for root, path in paths}


@cache
def folders() -> frozenset[str]:
    """All packages, also those without an `__init__.py`."""
    return frozenset(name.rpartition(".")[0] for name in files()) | {"headrace"}


def bound(body: list[ast.stmt]) -> Iterator[str]:
    """The names that statements of a module bind."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        else:
            yield from (each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
            for block in ("body", "orelse", "finalbody"):
                yield from bound(getattr(node, block, []))
            for handler in getattr(node, "handlers", []):
                yield from bound(handler.body)


@cache
def names_in(module: str) -> frozenset[str] | None:
    """The names of a module; None if a function of it decides."""
    found = frozenset(bound(ast.parse(files()[module].read_text()).body)) if module in files() else frozenset()
    return None if "__getattr__" in found else found


def missing(path: Path) -> Iterator[str]:
    """The names that a module imports and that do not exist."""
    for found in IMPORT.finditer(path.read_text()):
        module, names = found[1], names_in(found[1])
        if module.startswith(GENERATED) or names is None:
            continue
        where = path.relative_to(ROOT)
        if module not in files() and module not in folders():
            yield f"{where}: there is no module {module}"
            continue
        for name in NAME.findall(COMMENT.sub("", found[2])):
            whole = f"{module}.{name}"
            if name not in names and whole not in files() and whole not in folders() | {GENERATED}:
                yield f"{where}: {module} has no {name}"


def not_there(path: Path) -> Iterator[str]:
    """The names that a test replaces and that do not exist."""
    for whole in REPLACED.findall(path.read_text()):
        parts = whole.split(".")
        modules = [".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]
        module = next((name for name in modules if name in files()), "headrace")
        names, name = names_in(module), whole.removeprefix(f"{module}.").partition(".")[0]
        if names is not None and name not in names and f"{module}.{name}" not in folders():
            yield f"{path.relative_to(ROOT)}: {module} has no {name}"


def test_each_name_that_a_test_replaces_exists() -> None:
    assert [each for path in sorted((ROOT / "tests").rglob("*.py")) for each in not_there(path)] == []


@pytest.mark.parametrize("folder", ["tests", "scripts", "laboratory", "examples", "engine"])
def test_each_imported_name_exists(folder: str) -> None:
    assert [each for path in sorted((ROOT / folder).rglob("*.py")) for each in missing(path)] == []
