"""Checks from its source, without running it, what a user's program would do on import."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from headrace.terminal import EXIT_INVALID, Failure

_STARTS = {"awaitTermination", "awaitAnyTermination", "processAllAvailable", "getOrCreate", "build_session"}
"""Functions that start Spark, or wait for a Spark query."""
_GIVE_NO_PIPELINE = sys.stdlib_module_names | {"pyspark", "headrace"}
"""Packages that cannot provide a pipeline, `headrace.pipelines` excepted."""
Functions = dict[str, ast.FunctionDef | ast.AsyncFunctionDef]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def check(file: str, path: Path) -> None:
    """Rejects a program that has no pipeline, or that starts a query on import. Runs none of it.

    Raises:
        Failure: It is such a program, or is not valid Python.
    """
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = "" if line is None else f" ({path}, line {line})"
        raise Failure(f"{file} cannot be imported: {type(error).__name__}: {error}{where}", EXIT_INVALID) from None
    if not any(_may_give_pipeline(module) for module in _imported(tree)):
        raise Failure(
            f"{file} has no pipeline; it needs a line such as app = Pipeline('orders'). It was not run. Run a program "
            f"without a pipeline with Python: python {file}",
            EXIT_INVALID,
        )
    for call in _calls(tree.body, _functions(tree), set()):
        name = _name(call)
        if name in _STARTS or (name == "start" and _is_start_of_query(call, tree)):
            raise Failure(
                f"{file}, line {call.lineno}: {name}(...) would run when the file is imported, which headrace does to find its "
                'pipeline. Move the code that runs the program under if __name__ == "__main__":',
                EXIT_INVALID,
            )


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yields the modules that a program imports, and the names that it imports from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _may_give_pipeline(module: str) -> bool:
    return module.startswith("headrace.pipelines") or module.partition(".")[0] not in _GIVE_NO_PIPELINE


def _functions(tree: ast.Module) -> Functions:
    return {node.name: node for node in tree.body if isinstance(node, _FUNCTIONS)}


def _calls(body: list[ast.stmt], functions: Functions, entered: set[str]) -> Iterator[ast.Call]:
    """Yields the calls that statements make, directly or through functions of the program itself."""
    for statement in body:
        for call in _own_calls(statement):
            yield call
            name = call.func.id if isinstance(call.func, ast.Name) else ""
            if name in functions and name not in entered:
                entered.add(name)
                yield from _calls(functions[name].body, functions, entered)


def _own_calls(node: ast.AST) -> Iterator[ast.Call]:
    """Yields the calls in a statement, except calls in function bodies and under `if __name__ == "__main__"`."""
    if isinstance(node, ast.If) and _asks_whether_it_is_run(node.test):
        for other in node.orelse:
            yield from _own_calls(other)
        return
    if isinstance(node, ast.Call):
        yield node
    if isinstance(node, (*_FUNCTIONS, ast.Lambda)):
        return
    for child in ast.iter_child_nodes(node):
        yield from _own_calls(child)


def _asks_whether_it_is_run(test: ast.expr) -> bool:
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    texts = {node.value for node in ast.walk(test) if isinstance(node, ast.Constant)}
    return "__name__" in names and "__main__" in texts


def _name(call: ast.Call) -> str:
    """Returns the last part of the called name: `start` for `engine.start(...)`."""
    called = call.func
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def _is_start_of_query(call: ast.Call, tree: ast.Module) -> bool:
    """Whether a call to `start` is the engine's, or a Spark stream writer's."""
    if isinstance(call.func, ast.Name):
        return "headrace.engine.start" in _imported(tree)
    return any(isinstance(node, ast.Attribute) and node.attr == "writeStream" for node in ast.walk(call.func)) or (
        ast.unparse(call.func) in ("headrace.engine.start", "engine.start")
    )
