"""What connectors do with unusual input, as the marks of their tests say.

A test that shows it carries `@pytest.mark.behaviour(page, meets, does)`: the page in docs/reference/connectors without `.md`,
what the connector meets, and what it does then. Cases of a parametrized test carry it in `pytest.param(..., marks=...)`.
The marks are read from the sources: no test is imported. Pages do not name the tests: search for the words of a row in `tests`.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = "behaviour"


@dataclass(frozen=True)
class Behaviour:
    """The behaviour of a connector with unusual input.

    Attributes:
        page: The name of the connector's page.
        meets: The input.
        does: The behaviour.
        test: The node id of the test that shows it, or the path of its module if no single test does.
    """

    page: str
    meets: str
    does: str
    test: str


def behaviours(folder: Path, root: Path = ROOT) -> list[Behaviour]:
    """Returns what the marks in the tests of a folder say, in the order of modules and lines.

    Raises:
        ValueError: A mark is not three texts.
    """
    found: list[Behaviour] = []
    for module in sorted(folder.rglob("test_*.py")):
        source = module.read_text()
        if f"mark.{MARK}(" in source:
            found.extend(_in_module(source, module.relative_to(root).as_posix()))
    return found


def rows(page: str, found: list[Behaviour]) -> list[str]:
    """Returns the list of a page, in which inputs with the same answer share an item.

    Raises:
        ValueError: Two tests show different answers to the same input.
    """
    answers: dict[str, str] = {}
    tests: dict[str, str] = {}
    for one in (one for one in found if one.page == page):
        first = tests.setdefault(one.meets, one.test)
        if answers.setdefault(one.meets, one.does) != one.does:
            raise ValueError(f"{one.test}: {page} does something else with {one.meets!r} in {first}")
    alike: dict[str, list[str]] = {}
    for meets, does in answers.items():
        alike.setdefault(does, []).append(meets)
    return [f"- **{'; '.join(meets)}**: {does}" for does, meets in alike.items()]


def _in_module(source: str, path: str) -> Iterator[Behaviour]:
    tree = ast.parse(source, path)
    for statement in tree.body:
        yield from _in_statement(statement, tree, path)


def _in_statement(statement: ast.stmt, tree: ast.Module, path: str) -> Iterator[Behaviour]:
    calls = [node for node in ast.walk(statement) if _is_mark(node)]
    if not calls:
        return
    if isinstance(statement, ast.ClassDef):
        own = [call for decorator in statement.decorator_list for call in ast.walk(decorator) if _is_mark(call)]
        for call in own:
            yield _behaviour(call, path, f"{path}::{statement.name}")
        for member in statement.body:
            yield from _in_statement(member, tree, f"{path}::{statement.name}")
        return
    name = statement.name if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) else _user_of(statement, tree)
    for call in calls:
        yield _behaviour(call, path.partition("::")[0], f"{path}::{name}" if name else path)


def _is_mark(node: ast.AST) -> bool:
    """Whether it is a call of `pytest.mark.behaviour`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == MARK


def _user_of(statement: ast.stmt, tree: ast.Module) -> str | None:
    """Returns the only test that is parametrized with the cases that a statement names."""
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    users = [
        function.name
        for function in tree.body
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for decorator in function.decorator_list
        if names & {node.id for node in ast.walk(decorator) if isinstance(node, ast.Name)}
    ]
    return users[0] if len(users) == 1 else None


def _behaviour(call: ast.AST, module: str, test: str) -> Behaviour:
    assert isinstance(call, ast.Call)
    texts = [argument.value for argument in call.args if isinstance(argument, ast.Constant) and isinstance(argument.value, str)]
    if len(texts) != 3 or len(call.args) != 3 or call.keywords or not all(texts):
        want = "a page, what the connector meets, and what it does"
        raise ValueError(f"{module}:{call.lineno}: {MARK} wants three texts without placeholders: {want}")
    page, meets, does = texts
    return Behaviour(page, meets, does, test)
