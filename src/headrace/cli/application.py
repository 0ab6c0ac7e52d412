"""Finds the pipeline in a user's program."""

import importlib
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cli.program import check
from headrace.terminal import EXIT_INVALID, Failure

if TYPE_CHECKING:
    from headrace.pipelines import Pipeline


@dataclass(frozen=True)
class Application:
    """A pipeline and the folder whose modules it needs."""

    pipeline: "Pipeline"
    folder: Path


def load(target: str) -> Application:
    """Imports `app.py`, or `app.py:name` if the file has several pipelines.

    The file's folder is put first on `sys.path` and stays there, as when Python runs the file. A file that has no pipeline, or
    that would start a query on import, is not imported.

    Raises:
        Failure: The file does not exist, cannot or must not be imported, or does not have exactly one pipeline.
    """
    from headrace.pipelines import GraphError, Pipeline

    file, _, name = target.partition(":")
    path = Path(file).absolute()
    if not path.is_file() or path.suffix != ".py":
        raise Failure(f"{file} is not a Python file; name one that defines a pipeline: headrace run app.py", EXIT_INVALID)
    check(file, path)
    sys.path.insert(0, str(path.parent))
    try:
        module = importlib.import_module(path.stem)
    except GraphError as error:
        raise Failure(f"{file}: {error}", EXIT_INVALID) from None
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise Failure(
            f"{file} cannot be imported: {type(error).__name__}: {error} ({where.filename}, line {where.lineno})", EXIT_INVALID
        ) from error
    found = {known: value for known, value in vars(module).items() if isinstance(value, Pipeline)}
    if name:
        found = {known: value for known, value in found.items() if known == name}
    if len(found) != 1:
        has = f"has several pipelines ({', '.join(found)}); name one: {file}:{next(iter(found))}" if found else "has no pipeline"
        if not found:
            has += f" named {name}" if name else "; it needs a line such as app = Pipeline('orders')"
        raise Failure(f"{file} {has}", EXIT_INVALID)
    pipeline = next(iter(found.values()))
    try:
        _ = pipeline.graph
    except GraphError as error:
        raise Failure(f"{file}: {error}", EXIT_INVALID) from None
    return Application(pipeline, path.parent)
