"""Errors that cross from one process to another: as they are where both know them, otherwise as text."""

import pickle
import traceback

from headrace.contract.errors import HeadraceError
from headrace.pipelines.runtime import text_of

_KNOWN = ("builtins", "headrace")
"""The packages whose errors every process can read. Those of an application may need modules that only it has."""


def crossing(error: BaseException) -> Exception:
    """The error itself if every process can read it, otherwise one with its type, its text, and where it was raised."""
    if isinstance(error, Exception) and type(error).__module__.partition(".")[0] in _KNOWN and _is_whole(error):
        return error
    trace = traceback.extract_tb(error.__traceback__)
    where = f" ({trace[-1].filename}, line {trace[-1].lineno}, in {trace[-1].name})" if trace else ""
    return HeadraceError(f"{type(error).__name__}: {text_of(error)}{where}")


def _is_whole(error: Exception) -> bool:
    """Whether an error arrives as it is: it may have arguments that cannot be pickled, or not be made of its arguments."""
    try:
        return text_of(pickle.loads(pickle.dumps(error))) == text_of(error) == str(error)
    except Exception:
        return False
