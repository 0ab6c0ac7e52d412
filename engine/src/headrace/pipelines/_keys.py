"""Keys: what a flow can be keyed by, and the one form in which keys that are equal are the same.

A state lies where its key's bytes lead to. So keys that Python takes for equal must have the same bytes, in every process.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from headrace.pipelines._elements import Elements, Key
from headrace.pipelines._step import Run, Step

_PLAIN = frozenset({bytes, str, int, tuple, type(None)})
_ORDERED = frozenset({bytes, str, int})
_MOST_BITS = 1024
"""Of whole numbers. Python refuses to write very long ones as text."""
_DEEPEST = 8
"""So many tuples may lie in one another."""


def keyed(step: Step, keys: Sequence[Any], elements: Elements, run: Run) -> Elements:
    """Elements with keys in their normal form. Those whose key is none have failed.

    Raises:
        StepError: a key is none, and the step's policy is to fail.
    """
    if are_normal(keys):
        return replace(elements, keys=keys)
    found, there = list[Key](), list[int]()
    for index, key in enumerate(keys):
        try:
            normal = normal_key(key)
        except Exception as error:
            run.failed(step, elements, index, error)
        else:
            found.append(normal)
            there.append(index)
    return replace(elements if len(there) == len(keys) else elements.pick(there), keys=found)


def normal_key(key: Any, depth: int = 0) -> Key:
    """A key in its normal form: bytes, text, a number, None, or a tuple of these, of no class of its own.

    Numbers that are whole are ints: 1, 1.0, True and numpy's 1 are one key.

    Raises:
        TypeError: it is something else.
        ValueError: text that is not Unicode, or a number that is none or too large.
    """
    if isinstance(key, np.generic):
        key = key.item()
    if key is None:
        return None
    if isinstance(key, bytes):
        return bytes(key)
    if isinstance(key, str):
        key.encode()
        return str.__str__(key)
    if isinstance(key, float) and not key.is_integer():
        if key != key:
            raise ValueError("nan is no key, since it is not even equal to itself")
        return float.__float__(key)
    if isinstance(key, (int, float)):
        number = int(key)
        if number.bit_length() > _MOST_BITS:
            raise ValueError(f"a key can be a number of up to {_MOST_BITS} bits, and this one has {number.bit_length():,}")
        return number
    if isinstance(key, tuple):
        if depth == _DEEPEST:
            raise ValueError(f"tuples in a key lie more than {_DEEPEST} deep in one another")
        return tuple(normal_key(part, depth + 1) for part in key)
    raise TypeError(f"a key is bytes, text, a number, None or a tuple of these, and not a {type(key).__name__}")


def are_normal(keys: Collection[Any]) -> bool:
    """Whether keys are all in their normal form; False also where finding out takes a look at each."""
    for _ in range(_DEEPEST + 1):
        kinds = set(map(type, keys))
        if not kinds <= _PLAIN:
            return False
        if str in kinds and not _is_unicode(_of(keys, str, kinds)):
            return False
        if int in kinds and not _are_small(_of(keys, int, kinds)):
            return False
        if tuple not in kinds:
            return True
        keys = list(chain.from_iterable(_of(keys, tuple, kinds)))
    return False


def not_normal(keys: Collection[Any]) -> list[Any]:
    """Those keys that are not in their normal form."""
    return [] if are_normal(keys) else [key for key in keys if not _is_normal(key)]


def in_order_of_keys(keys: Collection[Key]) -> list[Key]:
    """Keys in an order that is the same in every process, whatever they are."""
    kinds = set(map(type, keys))
    if len(kinds) == 1 and kinds <= _ORDERED:
        return sorted(keys)  # type: ignore[type-var]
    return sorted(keys, key=_spelled)


def _spelled(key: Key) -> tuple[str, str]:
    return type(key).__name__, repr(key)


def _is_normal(key: Any) -> bool:
    try:
        return repr(normal_key(key)) == repr(key)
    except (TypeError, ValueError):
        return False


def _of(keys: Collection[Any], kind: type, kinds: set[type]) -> Collection[Any]:
    return keys if len(kinds) == 1 else [key for key in keys if type(key) is kind]


def _is_unicode(texts: Iterable[str]) -> bool:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def _are_small(numbers: Collection[int]) -> bool:
    return max(min(numbers).bit_length(), max(numbers).bit_length()) <= _MOST_BITS
