"""Checks of what the functions of an application return.

A coroutine, a generator or another iterator is no value: it is not there yet, can be used only once, and cannot be stored.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from functools import lru_cache
from typing import Any

from headrace.pipelines.steps.copies import FIXED, copied, share_nothing

_LAZY = (Iterator, Awaitable, AsyncIterator, Future)
_COMPLETE = (list, tuple)


def _is_lazy(kind: type) -> bool:
    return issubclass(kind, _LAZY)


is_lazy: Callable[[type], bool] = lru_cache(1024)(_is_lazy)
"""Whether instances of a class are not there yet."""


def present(result: Any) -> Any:
    """Returns the result of a function.

    Raises:
        TypeError: It is not there yet.
    """
    if is_lazy(type(result)):
        discard(result)
        raise TypeError(
            f"the function returned a {type(result).__name__}, which is not a value yet: return a value, such as a list; "
            "for any number of results, use flat_map or stateful_flat"
        )
    return result


def discard(result: Any) -> None:
    """Closes a coroutine or a generator that nothing will run, so that Python does not warn about it."""
    if is_lazy(type(result)) and callable(close := getattr(result, "close", None)):
        close()


def own(result: Any) -> Any:
    """Returns the result of a function that has a state, or a copy if a later change of the state could change the result.

    Raises:
        TypeError: It is not there yet, or cannot be copied.
    """
    return result if type(result) in FIXED else copied(present(result))


def spread(results: Any) -> list[Any]:
    """Returns the results of a function that returns or yields any number of them. They do not change each other.

    Raises:
        TypeError: They are one text, or not iterable, or one of them is not there yet or cannot be copied.
    """
    if type(results) not in _COMPLETE:
        # A function that yields may change what it has yielded.
        return own_of(results)
    found = list(results)
    for kind in set(map(type, found)):
        if is_lazy(kind):
            for result in found:
                present(result)
    return share_nothing(found)


def own_of(results: Any) -> list[Any]:
    """Returns what a function returns or yields, each of which is a result as `own` returns it.

    Raises:
        TypeError: See `spread`.
    """
    if isinstance(results, str | bytes):
        text = type(results).__name__
        raise TypeError(f"the function returned a {text}, not a list of results: return [result], or list(result) for its parts")
    if results is None:
        raise TypeError("the function returned None, not a list of results: return [] for no results")
    return [result if type(result) in FIXED else own(result) for result in results]


def own_or_none(results: Any) -> list[Any]:
    """Returns the results of a function that has a state, and may also return None or False for no results.

    Raises:
        TypeError: See `spread`.
    """
    return [] if results is None or results is False else own_of(results)


def accumulating(update: Callable[[Any, Any], Any], what: str, empty: Any) -> Callable[[Any, Any], Any]:
    """Returns a function that makes an accumulator of an accumulator and something else, and checks what it returns.

    Args:
        update: The function.
        what: Its name.
        empty: A new accumulator. If it is None, others may be None, too.
    """

    def accumulated(accumulator: Any, other: Any) -> Any:
        found = update(accumulator, other)
        if found is None and empty is not None:
            raise TypeError(f"{what} returned None, and must return the accumulator, even if it has changed it")
        return present(found)

    return accumulated
