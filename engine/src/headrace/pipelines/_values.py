"""The values that states hold, as bytes: instances of the application's classes by field, however deep they lie.

Two workers that hold the same values store the same number of bytes for them, although one has had them all the time and the
other one has read them. Pickle would not: it writes an object once, and refers to it from there on, and whether equal texts are
one object is chance. So values in which nothing can be one object by intent are written without such references.
"""

import pickle
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from io import BytesIO
from itertools import chain
from typing import Any

from headrace.pipelines._classes import Upgrade, check_fields, defaults_of, fields_declared, upgrade_of, version_inside
from headrace.pipelines._errors import StateError
from headrace.pipelines._fields import fields_of_one, instance, lies_in_dict
from headrace.pipelines._kinds import Kinds, is_by_field, refuse_lost

_LEAVES = frozenset({bool, int, float, complex, str, bytes, type(None), date, datetime, timedelta, Decimal})
_TEXTS = frozenset({str, bytes})
_NUMBERS = frozenset({bool, int, float, complex, type(None)})
_CHANGING = frozenset({list, dict, set})
_INNER = _CHANGING | {tuple, frozenset}
_PLAIN = _LEAVES | _INNER
_LARGE = 256
"""A text or tuple of this length that is there twice is written once."""
_DEEPEST = 12
_FEW = 64

Layout = tuple[str, str, int, tuple[str, ...], int]
"""Module, name and version of a class, the names of an instance's fields, and how many of the first of them it declares."""


def dumps(value: Any, kinds: Kinds) -> bytes:
    """Values as bytes.

    Raises:
        PicklingError: one cannot be stored; and whatever else its class raises.
    """
    if is_tree(value):
        return dumps_plain(value)
    written = BytesIO()
    _Writer(written, kinds).dump(value)
    return written.getvalue()


def loads(packed: bytes, kinds: Kinds, *, by_field: bool = True) -> Any:
    """The values of such bytes.

    Args:
        packed: The bytes.
        kinds: The classes of today.
        by_field: Whether instances were stored by field; otherwise they are what pickle made of them.

    Raises:
        StateError: a class is not what it was, and says not how old instances become new ones.
    """
    reader = _Reader(packed, kinds, by_field)
    try:
        value = reader.load()
        reader.finish()
    except StateError:
        raise
    except Exception as error:
        raise StateError(
            f"{kinds.where}: stored states do not fit the classes of now: {type(error).__name__}: {error}"
        ) from error
    return value


def dumps_plain(value: Any) -> bytes:
    """Values as bytes in which nothing is one object by intent, such as keys."""
    written = BytesIO()
    pickler = pickle.Pickler(written, 5)
    pickler.fast = True
    pickler.dump(value)
    return written.getvalue()


def is_tree(value: Any) -> bool:
    """Whether values are plain, and no list, dict or set is in two places."""
    if type(value) not in _INNER:
        return type(value) in _LEAVES
    level, seen, count = [value], set[int](), 0
    for _ in range(_DEEPEST):
        inside: list[Any] = []
        for values in _values_in(level):
            kinds = set(map(type, values))
            if not kinds <= _PLAIN or (kinds & _TEXTS and _is_large_twice(values, kinds)):
                return False
            if kinds & _INNER:
                inside += values if kinds <= _INNER else [each for each in values if type(each) in _INNER]
        if not inside:
            return True
        once = inside if set(map(type, inside)) <= _CHANGING else [each for each in inside if _is_once(each)]
        count += len(once)
        seen.update(map(id, once))
        if len(seen) < count:
            return False
        level = inside
    return False


def _values_in(level: list[Any]) -> Iterator[Collection[Any]]:
    """What lies in lists, dicts and the like: of each where there are few, of all together where there are many."""
    has_dicts = dict in map(type, level)
    if len(level) <= _FEW:
        yield from level
    elif has_dicts or not set(map(type, chain.from_iterable(level))) <= _NUMBERS:
        yield list(chain.from_iterable(level))
    if has_dicts:
        values = map(dict.values, [each for each in level if type(each) is dict])
        yield from values if len(level) <= _FEW else [list(chain.from_iterable(values))]


def _is_once(inner: Any) -> bool:
    return type(inner) in _CHANGING or len(inner) > _LARGE


def _is_large_twice(values: Collection[Any], kinds: set[type]) -> bool:
    texts = values if kinds <= _TEXTS else [value for value in values if type(value) in _TEXTS]
    if max(map(len, texts)) <= _LARGE:
        return False
    large = [id(text) for text in texts if len(text) > _LARGE]
    return len(set(large)) < len(large)


class _Writer(pickle.Pickler):
    """Writes values, and instances by field."""

    def __init__(self, written: BytesIO, kinds: Kinds) -> None:
        super().__init__(written, 5)
        self._kinds = kinds
        self._begun: dict[int, int] = {}
        self._layouts: dict[Layout, Layout] = {}
        self._last: dict[type, Layout] = {}

    def reducer_override(self, value: Any) -> Any:
        """What becomes of an object that is not plain."""
        kind: Any = type(value)
        if isinstance(value, Enum):
            refuse_lost(self._kinds, kind)
            plain = value.value if type(value.value) in _LEAVES else None
            return _member, (kind.__module__, kind.__qualname__, value.name, plain)
        if not is_by_field(kind):
            return NotImplemented
        number = self._begun.get(id(value))
        layout, values = self._taken_apart(kind, value)
        if number is not None:
            # It lies inside of itself: what is read of it now is filled in later.
            return _same, (number, layout)
        number = self._begun[id(value)] = len(self._begun)
        return _instance, (number, layout, values)

    def _taken_apart(self, kind: type, value: Any) -> tuple[Layout, list[Any]]:
        fields: Mapping[str, Any] = value._asdict() if issubclass(kind, tuple) else fields_of_one(value)
        layout = self._last.get(kind)
        if layout is None or layout[3] != tuple(fields):
            declared = fields_declared(kind)
            if declared is not None and not declared.issuperset(fields):
                fields = dict(sorted(fields.items(), key=lambda field: field[0] not in declared))
            known = len(fields) if declared is None else len(declared.intersection(fields))
            layout = self._layout((kind.__module__, kind.__qualname__, version_inside(kind), tuple(fields), known), kind)
            self._last[kind] = layout
        return layout, list(fields.values())

    def _layout(self, layout: Layout, kind: type) -> Layout:
        if layout not in self._layouts:
            refuse_lost(self._kinds, kind)
        # One and the same object, so that it is written once.
        return self._layouts.setdefault(layout, layout)


class _Reader(pickle.Unpickler):
    """Reads values, and brings instances up to date with their classes."""

    def __init__(self, packed: bytes, kinds: Kinds, by_field: bool) -> None:
        super().__init__(BytesIO(packed))
        self._kinds, self._by_field = kinds, by_field
        self._begun: dict[int, Any] = {}
        self._by_pickle: list[Any] = []
        self._known: dict[Layout, tuple[type, Upgrade | None, bool]] = {}
        self._own: Mapping[str, Callable[..., Any]] = {
            "_instance": self._instance,
            "_same": self._same,
            "_member": self._member,
        }

    def find_class(self, module: str, name: str) -> Any:
        """A class or function that values name."""
        if module == __name__ and name in self._own:
            return self._own[name]
        found = self._kinds.find(module, name)
        if self._by_field or not isinstance(found, type) or not is_by_field(found) or issubclass(found, tuple):
            return found
        return _stand_in(found, self._by_pickle)

    def finish(self) -> None:
        """Brings instances up to date that pickle has made, once all of them are there."""
        for made in self._by_pickle:
            kind: type = type(made)
            fields = fields_of_one(made)
            layout = kind.__module__, kind.__qualname__, 0, tuple(fields), len(fields)
            self._filled(made, layout, fields)

    def _instance(self, number: int, layout: Layout, values: list[Any]) -> Any:
        kind, _, is_simple = self._known.get(layout) or self._now(layout)
        made = self._begun.pop(number, None) if self._begun else None
        fields = dict(zip(layout[3], values, strict=True))
        if is_simple and made is None:
            made = object.__new__(kind)
            made.__dict__.update(fields)
            return made
        return self._filled(made, layout, fields)

    def _filled(self, made: Any, layout: Layout, fields: dict[str, Any]) -> Any:
        kind, upgrade, _ = self._known.get(layout) or self._now(layout)
        if upgrade is not None:
            fields = upgrade(layout[2], fields)
            check_fields(self._kinds.where, kind, fields.keys() - set(layout[3][layout[4] :]))
        defaults = defaults_of(kind)
        return kind(**fields) if issubclass(kind, tuple) else instance(kind, fields, defaults, made)

    def _now(self, layout: Layout) -> "tuple[type, Upgrade | None, bool]":
        """What a class is today, how its fields become those of today, and whether they are the same in its dict."""
        module, name, version, names, known = layout
        kind = self._kinds.find(module, name)
        upgrade = None if version == version_inside(kind) else upgrade_of(self._kinds.where, kind, version)
        if upgrade is None:
            check_fields(self._kinds.where, kind, names[:known])
        is_simple = upgrade is None and lies_in_dict(kind) and defaults_of(kind).keys() <= set(names)
        self._known[layout] = kind, upgrade, is_simple
        return self._known[layout]

    def _same(self, number: int, layout: Layout) -> Any:
        if number not in self._begun:
            self._begun[number] = object.__new__(self._kinds.find(layout[0], layout[1]))
        return self._begun[number]

    def _member(self, module: str, name: str, member: str | None, value: Any) -> Any:
        kind = self._kinds.find(module, name)
        if member in kind.__members__:
            return kind.__members__[member]
        try:
            return kind(value)
        except ValueError:
            raise StateError(
                f"{self._kinds.where}: stored states hold {name}.{member}, with the value {value!r}, and {name} has no such "
                "member now; give it one of that name or value"
            ) from None


def _instance(number: int, layout: Layout, values: list[Any]) -> Any:
    """Stands in what is written for what a reader does."""
    raise NotImplementedError("such values are read by loads")


def _same(number: int, layout: Layout) -> Any:
    """The same."""
    raise NotImplementedError("such values are read by loads")


def _member(module: str, name: str, member: str | None, value: Any) -> Any:
    """The same."""
    raise NotImplementedError("such values are read by loads")


def _stand_in(kind: type, made: list[Any]) -> type:
    """A class that makes instances of another one, and notes them."""

    def new(_: type) -> Any:
        made.append(object.__new__(kind))
        return made[-1]

    return type(kind.__name__, (), {"__new__": new})
