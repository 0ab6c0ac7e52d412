"""Checks of what an application passes to the methods of a pipeline.

Each check raises a `GraphError` that names the place, the parameter, what was value, and what to pass instead. `where` is the
place: the pipeline and the step.
"""

import inspect
from collections.abc import Callable, Collection
from enum import Enum
from operator import index
from reprlib import Repr
from typing import Any, TypeVar

from headrace.contract.limits import MAX_NAME_BYTES
from headrace.contract.names import is_name, is_stream_pattern
from headrace.pipelines._errors import GraphError

E = TypeVar("E", bound=Enum)
MAX_COUNT = 2**31 - 1
"""The largest number of anything."""

_short = Repr()
_short.maxstring = _short.maxother = 80


def excerpt(value: object) -> str:
    """What was value, for an error: not longer than a line."""
    try:
        return _short.repr(value)
    except ValueError:  # Python writes no number of several thousand digits.
        return f"{type(value).__name__}(...)"


def member(where: str, parameter: str, value: Any, kind: type[E]) -> E:
    """Returns a member of an enum. Text is refused, also the value of a member."""
    if isinstance(value, kind):
        return value
    names = [f"{kind.__name__}.{one.name}" for one in kind]
    raise GraphError(f"{where}: {parameter} must be {', '.join(names[:-1])} or {names[-1]}, not {excerpt(value)}")


def name(where: str, parameter: str, value: Any) -> str:
    """Returns the name of a pipeline or a sink."""
    if isinstance(value, str) and is_name(value):
        return str(value)
    raise GraphError(
        f"{where}: {parameter} must have 1 to {MAX_NAME_BYTES} ASCII letters, digits or any of '._-', and is {excerpt(value)}"
    )


def step_name(where: str, value: Any) -> str | None:
    """Checks the name of a step, which must fit into one line of options, counters and errors; None for none."""
    if value is None:
        return None
    if isinstance(value, str) and value.isprintable() and value == value.strip() and 1 <= len(value.encode()) <= MAX_NAME_BYTES:
        return str(value)
    raise GraphError(
        f"{where}: name must be text of 1 to {MAX_NAME_BYTES} bytes in UTF-8, printable and without spaces around it, "
        f"and is {excerpt(value)}"
    )


def patterns(where: str, value: Any) -> tuple[str, ...]:
    """Returns patterns of stream names, which are separated by commas."""
    if not isinstance(value, str):
        raise GraphError(f"{where}: streams must be text, such as 'orders/*, returns/*', not {excerpt(value)}")
    found = tuple(pattern.strip() for pattern in value.split(",") if pattern.strip())
    if not found:
        raise GraphError(f"{where}: a source needs streams, such as 'orders/*'")
    for pattern in found:
        if not is_stream_pattern(pattern):
            raise GraphError(
                f"{where}: streams has {excerpt(pattern)}, which is not a pattern source/partition of ASCII letters, digits and "
                "'._-*', such as 'orders/*'"
            )
    return found


def flag(where: str, parameter: str, value: Any) -> bool:
    """Returns True or False."""
    if isinstance(value, bool):
        return value
    raise GraphError(f"{where}: {parameter} must be True or False, not {excerpt(value)}")


def whole(where: str, parameter: str, value: Any) -> int:
    """Returns a whole number, as an int."""
    try:
        if not isinstance(value, bool):
            return index(value)
    except TypeError:
        pass
    raise GraphError(f"{where}: {parameter} must be a whole number, not {excerpt(value)}")


def count(where: str, parameter: str, value: Any, *, least: int = 1, most: int | None = None) -> int:
    """Returns a whole number within bounds: by default, from 1 to what the protocol carries."""
    found = whole(where, parameter, value)
    if most is None and found < least:
        raise GraphError(f"{where}: {parameter} must be at least {least}, and is {excerpt(found)}")
    if not least <= found <= (most or MAX_COUNT):
        raise GraphError(f"{where}: {parameter} must be from {least} to {most or MAX_COUNT:,}, and is {excerpt(found)}")
    return found


def texts(where: str, parameter: str, value: Any) -> tuple[str, ...]:
    """Returns a list of texts as a tuple."""
    if isinstance(value, str) or not isinstance(value, Collection) or not all(isinstance(one, str) for one in value):
        raise GraphError(f"{where}: {parameter} is a list of texts, not {excerpt(value)}")
    for one in value:
        if "\0" in one or not _is_unicode(one):
            raise GraphError(f"{where}: {parameter} has {excerpt(one)}, which is no valid text for a program")
    return tuple(value)


def function(where: str, parameter: str, value: Any, *called_with: str, instead_of_yield: str | None = None) -> None:
    """Checks a function that returns its result.

    Args:
        where: The place.
        parameter: The parameter.
        value: The function.
        called_with: The names of the arguments with which it will be called; without any, they are not checked.
        instead_of_yield: What to do with a function that yields, which is refused; None if it may yield.
    """
    if not callable(value):
        raise GraphError(f"{where}: {parameter} must be a function, not {excerpt(value)}")
    if _is(value, inspect.iscoroutinefunction) or _is(value, inspect.isasyncgenfunction):
        what = f"{where}: {parameter} is an async function, and nothing awaits what it returns"
        raise GraphError(f"{what}: pass an ordinary one, or call it in map_async")
    if instead_of_yield is not None and _is(value, inspect.isgeneratorfunction):
        raise GraphError(f"{where}: {parameter} yields, and must return one result: {instead_of_yield}")
    if called_with and not _takes(value, len(called_with)):
        arguments = ", ".join(called_with)
        raise GraphError(f"{where}: {parameter} is called with ({arguments}), which {excerpt(value)} does not take")


def async_function(where: str, parameter: str, value: Any, *called_with: str) -> None:
    """Checks an async function, which returns its result once it is awaited."""
    if not callable(value) or not _is(value, inspect.iscoroutinefunction):
        raise GraphError(f"{where}: {parameter} must be an async function, not {excerpt(value)}: for an ordinary one, use map")
    if not _takes(value, len(called_with)):
        raise GraphError(f"{where}: {parameter} is called with ({', '.join(called_with)}), which {excerpt(value)} does not take")


def maker(where: str, parameter: str, value: Any) -> None:
    """Checks a function without parameters, ordinary or async, that makes what a process needs once."""
    if not callable(value) or _is(value, inspect.isasyncgenfunction) or _is(value, inspect.isgeneratorfunction):
        raise GraphError(f"{where}: {parameter} must be a function that returns something, not {excerpt(value)}")
    takes_nothing(where, parameter, value)


def takes_nothing(where: str, parameter: str, value: Any) -> None:
    """Checks that a function can be called without arguments."""
    if not _takes(value, 0):
        raise GraphError(f"{where}: {parameter} is called without arguments, which {excerpt(value)} does not take")


def taker(where: str, parameter: str, value: Any, called_with: str) -> None:
    """Checks a function of one argument, ordinary or async, whose result is of no interest."""
    if not callable(value) or _is(value, inspect.isasyncgenfunction) or _is(value, inspect.isgeneratorfunction):
        raise GraphError(f"{where}: {parameter} must be a function that does not yield, not {excerpt(value)}")
    if not _takes(value, 1):
        raise GraphError(f"{where}: {parameter} is called with ({called_with}), which {excerpt(value)} does not take")


def factory(where: str, parameter: str, value: Any) -> Any:
    """Checks a function that makes a new state or accumulator; returns one."""
    if not callable(value):
        raise GraphError(f"{where}: {parameter} must be a class or a function that makes a new object, not {excerpt(value)}")
    function(where, parameter, value, instead_of_yield="return a new object")
    try:
        made, again = value(), value()
    except Exception as error:
        raise GraphError(f"{where}: {parameter} raised {type(error).__name__}: {error}") from error
    if made is again and _can_change(made):
        raise GraphError(
            f"{where}: {parameter} returns the same {type(made).__name__} each time, which all keys would share: return a new one"
        )
    return made


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _can_change(value: Any) -> bool:
    """Whether an object may be changed: it has no hash, or attributes and the hash of its identity."""
    hash_: Any = type(value).__hash__
    return hash_ is None or (hash_ is object.__hash__ and bool(getattr(value, "__dict__", None)))


def _is(value: Any, kind: Callable[[Any], bool]) -> bool:
    """Whether a function, or the method by which an instance is called, is of a kind."""
    return kind(value) or (not isinstance(value, type) and kind(type(value).__call__))


def _takes(value: Any, count: int) -> bool:
    """Whether a function can be called with some positional arguments; True even if that is not known, as for `int`."""
    try:
        # Not the signature of a function that a decorator has wrapped: it may be called with other arguments.
        signature = inspect.signature(value, follow_wrapped=False)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True
