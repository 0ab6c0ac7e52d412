"""The smaller and the larger of two values, in an order that is total: the result does not depend on which comes first.

None is no value. NaN is larger than all other numbers, as in Spark SQL, also within tuples and lists, where None is the smallest.
Of values that are equal and look different, such as 1, 1.0 and True, or 0.0 and -0.0, the one is chosen whose type and text come
first, if its class has a text of its own.
"""

from typing import Any


def smaller(first: Any, second: Any) -> Any:
    """Returns the smaller one of two values; the other one if one is None.

    Raises:
        TypeError: The values cannot be compared.
    """
    if first is None or second is None:
        return second if first is None else first
    if _is_less(second, first):
        return second
    return first if _is_less(first, second) else _representative(first, second)


def larger(first: Any, second: Any) -> Any:
    """Returns the larger one of two values; the other one if one is None.

    Raises:
        TypeError: The values cannot be compared.
    """
    if first is None or second is None:
        return second if first is None else first
    if _is_less(first, second):
        return second
    return first if _is_less(second, first) else _representative(first, second)


def order(first: Any, second: Any) -> int:
    """Returns -1 if the first one of two values comes first, 1 if the second one does, and 0 if they are the same.

    Raises:
        TypeError: The values cannot be compared.
    """
    if _is_less(first, second):
        return -1
    return 1 if _is_less(second, first) else by_text(first, second)


def by_text(first: Any, second: Any) -> int:
    """Returns the order of two values by type and text, if their classes have a text of their own; 0 otherwise."""
    if first is second or not (_has_text(first) and _has_text(second)):
        return 0
    one, other = _text(first), _text(second)
    return (one > other) - (one < other)


def _is_less(first: Any, second: Any) -> bool:
    if first is None or second is None:
        return second is not None
    if isinstance(first, (tuple, list)) and isinstance(second, (tuple, list)):
        return _comes_first(first, second)
    # Only NaN, of floats, decimals and others, is not equal to itself. Decimals refuse to compare it.
    if first != first or second != second:
        return bool(first == first)
    return bool(first < second)


def _comes_first(first: Any, second: Any) -> bool:
    if isinstance(first, tuple) is not isinstance(second, tuple):
        return bool(first < second)
    for one, other in zip(first, second, strict=False):
        if _is_less(one, other):
            return True
        if _is_less(other, one):
            return False
    return len(first) < len(second)


def _representative(first: Any, second: Any) -> Any:
    """One of two values of which neither is smaller."""
    return first if first is second or not (_has_text(first) and _has_text(second)) else min(first, second, key=_text)


def _has_text(value: Any) -> bool:
    """Whether the text of a value is the same in each process, and not its address."""
    shows: Any = type(value).__repr__
    return shows is not object.__repr__


def _text(value: Any) -> tuple[str, str]:
    return type(value).__name__, repr(value)
