"""The classes of instances inside states: which are stored by field, and how stored ones are found."""

import copyreg
import dataclasses
import pickle
import struct
import sys
import typing
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from typing import Any

from headrace.pipelines._errors import StateError
from headrace.pipelines.states.fields import slots_of

HEAP_TYPE = 1 << 9
"""The flag of classes that are defined in Python, and of some in C."""
_WORD = struct.calcsize("P")


@lru_cache(maxsize=1024)
def is_by_field(kind: type) -> bool:
    """Whether a class's instances are stored by field: an ordinary class, a dataclass or a named tuple.

    Not a class that customises pickling, and no subclass of list, dict, set, a number or text.
    """
    if not kind.__flags__ & HEAP_TYPE or kind in copyreg.dispatch_table:
        return False
    if issubclass(kind, tuple):
        return kind.__bases__ == (tuple,) and hasattr(kind, "_fields") and _says_nothing(kind, "__getnewargs__")
    if not all(base is object or base.__flags__ & HEAP_TYPE for base in kind.__mro__) or issubclass(kind, type):
        return False
    return _says_nothing(kind) and not _has_hidden_state(kind)


def _has_hidden_state(kind: type) -> bool:
    """Whether a class's instances contain more than fields: its base is a class in C, which `pickle` recognises by its size."""
    words = len(slots_of(kind)) + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return kind.__itemsize__ != 0 or kind.__basicsize__ > object.__basicsize__ + words * _WORD


def _says_nothing(kind: type, *expected: str) -> bool:
    """Whether a class does not customise pickling. The methods of dataclasses with slots do not count."""
    if any(getattr(kind, name) is not getattr(object, name) for name in ("__reduce__", "__reduce_ex__")):
        return False
    names = {"__getnewargs__", "__getnewargs_ex__", "__getstate__", "__setstate__"}.difference(expected)
    said = [getattr(kind, name) for name in names if getattr(kind, name, None) is not getattr(object, name, None)]
    return all(getattr(function, "__module__", None) == dataclasses.__name__ for function in said)


class Kinds:
    """The classes of instances inside the states of a step, according to annotations.

    Args:
        where: Identifies the step, for errors.
        make: Creates a state: its class, or a function.
    """

    def __init__(self, where: str, make: Callable[[], Any]) -> None:
        self.where = where
        self._make = make

    @cached_property
    def _classes(self) -> dict[str, list[type]]:
        known: dict[str, list[type]] = {}
        for kind in _reachable(self._make):
            known.setdefault(kind.__qualname__, []).append(kind)
        return known

    def find(self, module: str, name: str) -> Any:
        """Finds a stored class or function by module and name. If a class has moved, the annotations are searched.

        Raises:
            StateError: There is nothing of that name.
        """
        known = self._classes.get(name, [])
        for kind in known:
            if kind.__module__ == module:
                return kind
        try:
            return _imported(module, name)
        except (ImportError, AttributeError):
            if len(known) == 1:
                return known[0]
        raise StateError(
            f"{self.where}: stored states contain a {module}.{name}, which no longer exists; if it has moved, name it in the "
            "annotations of the state's class, otherwise keep it until the states are dropped"
        )

    def can_find(self, kind: type) -> bool:
        """Whether a class can be found by its module and name."""
        try:
            return self.find(kind.__module__, kind.__qualname__) is kind
        except StateError:
            return False


def _imported(module: str, name: str) -> Any:
    __import__(module)
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _reachable(make: Callable[[], Any]) -> Iterator[type]:
    """The classes that are reachable through the annotations of states and of the function that creates them."""
    seen: set[Any] = set()
    waiting: list[Any] = [make] if isinstance(make, type) else [_hints(make).get("return"), type(make())]
    while waiting:
        hint = waiting.pop()
        waiting += typing.get_args(hint)
        kind = typing.get_origin(hint) or hint
        if not isinstance(kind, type) or kind in seen or not kind.__flags__ & HEAP_TYPE:
            continue
        seen.add(kind)
        yield kind
        waiting += _hints(kind).values()
        waiting += kind.__subclasses__() if is_by_field(kind) else ()


def _hints(annotated: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(annotated)
    except Exception:
        return {}  # Annotations may name what does not exist at run time.


def refuse_lost(kinds: Kinds, kind: type) -> None:
    """Rejects a class that could not be found when its instances are read.

    Raises:
        PicklingError: The class cannot be found by its module and name.
    """
    if not kinds.can_find(kind):
        raise pickle.PicklingError(
            f"the class {kind.__module__}.{kind.__qualname__} cannot be found by its name; define it at the top level of a "
            "module, or name it in the annotations of the state's class"
        )
