"""Keys, and their normal form, in which equal keys are identical.

The bytes of a key determine where its state is stored. Keys that are equal in Python must therefore have the same bytes, in every
process.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from headrace.pipelines.elements.elements import Elements, Key
from headrace.pipelines.steps.step import Step, StepPass

_PLAIN = frozenset({bytes, str, int, tuple, type(None)})
_ORDERED = frozenset({bytes, str, int})
_MAX_BITS = 1024
"""The largest size of a whole number. Python does not convert very large ones to text."""
_DEEPEST = 8
"""The largest depth of nested tuples."""


def keyed(step: Step, keys: Sequence[Any], elements: Elements, step_pass: StepPass) -> Elements:
    """Elements with keys in their normal form. Those with an invalid key have failed.

    Raises:
        StepError: A key is invalid, and the step's policy is `OnError.FAIL`.
    """
    normal, there = normal_keys(step, keys, elements, step_pass)
    return replace(there, keys=normal)


def normal_keys(step: Step, keys: Sequence[Any], elements: Elements, step_pass: StepPass) -> tuple[Sequence[Key], Elements]:
    """Keys in their normal form, and their elements. Those with an invalid key have failed.

    Raises:
        StepError: A key is invalid, and the step's policy is `OnError.FAIL`.
    """
    if are_normal(keys):
        return keys, elements
    found, there = list[Key](), list[int]()
    for index, key in enumerate(keys):
        try:
            normal = normal_key(key)
        except BaseException as error:
            step_pass.failed(step, elements, index, error)
        else:
            found.append(normal)
            there.append(index)
    return found, elements if len(there) == len(keys) else elements.pick(there)


def normal_key(key: Any, depth: int = 0) -> Key:
    """A key in its normal form: bytes, str, int, float, None, or a tuple of these, not of a subclass.

    Whole numbers are ints: 1, 1.0, True and numpy's 1 are the same key.

    Raises:
        TypeError: The key is of another type.
        ValueError: The text is not valid Unicode, the number is NaN or too large, or tuples are nested too deeply.
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
            raise ValueError("nan cannot be a key, since it is not equal to itself")
        return float.__float__(key)
    if isinstance(key, (int, float)):
        number = int(key)
        if number.bit_length() > _MAX_BITS:
            raise ValueError(f"a number in a key can have up to {_MAX_BITS} bits, and this one has {number.bit_length():,}")
        return number
    if isinstance(key, tuple):
        if depth == _DEEPEST:
            raise ValueError(f"tuples in a key are nested more than {_DEEPEST} deep")
        return tuple(normal_key(part, depth + 1) for part in key)
    raise TypeError(f"a key must be bytes, text, a number, None or a tuple of these, not a {type(key).__name__}")


def are_normal(keys: Collection[Any]) -> bool:
    """Whether all keys are in their normal form; False even if only a check of each key could tell."""
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


def in_order_of_keys(keys: Collection[Key]) -> list[Key]:
    """The keys in an order that is the same in every process, for all types of keys."""
    kinds = set(map(type, keys))
    if len(kinds) == 1 and kinds <= _ORDERED:
        return sorted(keys)  # type: ignore[type-var]
    return sorted(keys, key=_spelled)


def _spelled(key: Key) -> tuple[str, str]:
    return type(key).__name__, repr(key)


def _of(keys: Collection[Any], kind: type, kinds: set[type]) -> Collection[Any]:
    return keys if len(kinds) == 1 else [key for key in keys if type(key) is kind]


def _is_unicode(texts: Iterable[str]) -> bool:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def _are_small(numbers: Collection[int]) -> bool:
    return max(min(numbers).bit_length(), max(numbers).bit_length()) <= _MAX_BITS
