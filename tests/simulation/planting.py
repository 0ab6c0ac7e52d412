"""Plants a fault: replaces a piece of text in a function, in the running process, until the block ends."""

import contextlib
import functools
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any


@dataclass(frozen=True)
class Change:
    """A change of a function.

    Attributes:
        function: The function, as `module:name` or `module:Class.name`.
        old: The text that it has.
        new: The text in its place.
    """

    function: str
    old: str
    new: str


@contextlib.contextmanager
def planted(*changes: Change) -> Iterator[None]:
    """Changes functions until the block ends.

    The function itself gets other code, so that it is changed wherever it was imported.
    """
    with contextlib.ExitStack() as stack:
        for change in changes:
            function = find(change.function)
            stack.callback(setattr, function, "__code__", function.__code__)
            function.__code__ = changed(function, change).__code__
        yield


def find(name: str) -> FunctionType:
    """Returns a function by its name, also one behind a property or a decorator."""
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = inspect.getattr_static(found, part)
    found = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
    while hasattr(found, "__wrapped__"):
        found = found.__wrapped__
    assert isinstance(found, FunctionType), name
    return found


def changed(function: FunctionType, change: Change) -> FunctionType:
    """Returns a changed function."""
    source = textwrap.dedent(_source(function))
    assert source.count(change.old) == 1, f"{change.function} must have this text once: {change.old}"
    scope = dict(function.__globals__)
    exec(compile(source.replace(change.old, change.new), f"planted in {change.function}", "exec"), scope)
    found = scope[function.__name__]
    found = found.fget if isinstance(found, property) else found
    while hasattr(found, "__wrapped__"):
        found = found.__wrapped__
    assert isinstance(found, FunctionType)
    return found


@functools.cache
def _source(function: FunctionType) -> str:
    """Returns the text of a function, by its first code."""
    return inspect.getsource(function)
