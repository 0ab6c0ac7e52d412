"""Counts for people: one deployment is no "1 deployments", and of one message none "are"."""

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.terminal import counted

ROOT = Path(__file__).parents[2]
OF_COMMANDS = (
    "src/headrace/cli",
    "src/headrace/deploy/view.py",
    "src/headrace/deploy/plan.py",
    "src/headrace/doctor",
    "gateway/src/headrace/gateway_cli",
    "connectors/src/headrace/connectors_cli",
    "conformance/src/headrace/conformance/command.py",
)
OF_ERRORS = ("connectors/src/headrace/connectors", "gateway/src/headrace/gateway/core/status/health")
"""Their bytes are beyond a limit, so never one; their messages may be one."""
THINGS = (
    "columns|datagrams|entries|events|files|headers|messages|outcomes|partitions|properties|records|rows|streams|tasks|values"
)
MESSAGES = re.compile(r" messages\b")
PLURAL = re.compile(r" (?:[a-z-]+ )?[a-z-]{3,}s\b")
"""What follows a count that is meant to be one of several."""


@pytest.mark.parametrize(
    ("count", "noun", "said"),
    [
        (0, "deployment", "0 deployments"),
        (1, "deployment", "1 deployment"),
        (1, "process", "1 process"),
        (2, "process", "2 processes"),
        (1_000, "micro-batch", "1,000 micro-batches"),
        (2, "dead letter", "2 dead letters"),
        (1, "message is", "1 message is"),
        (2, "message is", "2 messages are"),
        (0, "process has", "0 processes have"),
        (1_000, "file does", "1,000 files do"),
    ],
)
def test_one_thing_is_named_in_the_singular(count: int, noun: str, said: str) -> None:
    thing, _, verb = noun.rpartition(" ") if noun.endswith((" is", " has", " does")) else (noun, "", "")
    assert counted(count, thing, verb) == said


@given(st.integers(0, 10**12))
def test_only_one_is_one(count: int) -> None:
    assert counted(count, "file").endswith("s") == (count != 1)


def test_no_command_writes_a_plural_behind_a_count_without_looking_at_the_count() -> None:
    """`{len(found)} files` and `{count:,} files`: `counted` chooses."""
    modules = [path for place in OF_COMMANDS for path in _modules(ROOT / place)]
    assert len(modules) > 30
    assert [f"{path.relative_to(ROOT)}:{line}" for path in modules for line in _plurals(path)] == []


def test_no_error_of_a_connector_and_no_alert_writes_messages_behind_a_count() -> None:
    modules = [path for place in OF_ERRORS for path in _modules(ROOT / place)]
    assert len(modules) > 100
    found = [(path, node, value) for path in modules for node, value, text in _values(path) if MESSAGES.match(text)]
    assert [f"{path.relative_to(ROOT)}:{node.lineno}" for path, node, value in found if not _is_constant(value)] == []


def test_no_log_line_writes_a_plural_behind_a_count() -> None:
    folders = ("base", "connectors", "conformance", "engine", "gateway", "pipelines", "sdk/python")
    modules = [path for folder in folders for path in _modules(ROOT / folder / "src")] + _modules(ROOT / "src")
    assert len(modules) > 800
    assert [str(path) for path in modules if re.search(rf"%d (?:{THINGS})\b", path.read_text())] == []


OTHER_LANGUAGES = {".go", ".java", ".rs", ".ts"}
MADE = {"node_modules", "dist", "target", "gen", "test", "tests", "benchmarks"}
BEHIND_A_COUNT = re.compile(rf"(?:%d|(?<!\$)\{{[a-z0-9_.]*\}}|\$\{{[^}}]+\}}) (?:{THINGS})\b[^\"`]*")
MORE_THAN_A_LIMIT = ("partitions, but the gateway limits a session", "tasks return their records in any order")


def test_no_error_of_an_sdk_in_another_language_names_things_behind_a_count_that_may_be_one() -> None:
    """`messages of a part: 3 expected, 1 arrived`: no language needs to choose between singular and plural."""
    listed = [path for name in ("sdk", "bridges", "examples") for path in _written(ROOT / name)]
    files = [path for path in listed if path.suffix in OTHER_LANGUAGES and not path.stem.endswith(("_test", ".pb", "tests"))]
    assert len(files) > 200
    found = [(path, line) for path in files for line in BEHIND_A_COUNT.findall(path.read_text(errors="replace"))]
    assert found, "the pattern matches what it is for"
    assert [(path, line) for path, line in found if not any(limit in line for limit in MORE_THAN_A_LIMIT)] == []


def _written(root: Path) -> Iterator[Path]:
    """Yields the files below a folder that no build makes."""
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below if name not in MADE]
        yield from (Path(folder, name) for name in names)


def _modules(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


def _plurals(path: Path) -> Iterator[int]:
    return (node.lineno for node, value, text in _values(path) if PLURAL.match(text) and _is_count(value))


def _values(path: Path) -> Iterator[tuple[ast.JoinedStr, ast.FormattedValue, str]]:
    """Yields each value in a text of a module, and the text that follows it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            for value, following in zip(node.values, node.values[1:], strict=False):
                if isinstance(value, ast.FormattedValue) and isinstance(following, ast.Constant):
                    yield node, value, str(following.value)


def _is_count(value: ast.FormattedValue) -> bool:
    has_commas = value.format_spec is not None and ast.unparse(value.format_spec) in ("f','", "f',d'")
    is_length = isinstance(value.value, ast.Call) and ast.unparse(value.value.func) == "len"
    # One that is larger by a constant is no count of things that may be one: a limit.
    return (has_commas or is_length) and not _is_constant(value)


def _is_constant(value: ast.FormattedValue) -> bool:
    return isinstance(value.value, ast.Name) and value.value.id.isupper()
