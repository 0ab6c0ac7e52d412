"""Serialises values that are not trees of plain values: instances of the application's classes, by field, and sets.

The bytes depend on the values, not on object identity: a worker that has cached a state has other objects than one that has read
it. So there are no references to earlier values, except to large texts, by their content. Sets are written in order.

If a list, a dict or an instance occurs in several places, this must be preserved. Such values are written with pickle's
references, and then the bytes depend on whether equal texts are the same object.
"""

import pickle
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from io import BytesIO
from types import BuiltinFunctionType, FunctionType
from typing import Any

from headrace.pipelines.states.classes import fields_declared, version_inside
from headrace.pipelines.states.declared import Declared, declared_inside
from headrace.pipelines.states.fields import fields_of_one, lies_in_dict
from headrace.pipelines.states.kinds import HEAP_TYPE, Kinds, is_by_field, refuse_lost
from headrace.pipelines.states.trees import LARGE, LEAVES, NUMBERS

Layout = tuple[str, str, int, tuple[str, ...], int, Declared]
"""Module, name and version of a class, the names of an instance's fields, how many of them, the first ones, it declares, and all
that it declares."""
Tables = tuple[tuple[Layout, ...], tuple[str | bytes, ...]]
"""What the bytes reference by number: the layouts of instances, and large texts."""

SET, FROZEN_SET, MEMBER, TEXT = -1, -2, -3, -4
"""The tags of values that are not written directly. For an instance, the tag is the number of its layout."""

_AS_IT_IS, _CHANGING, _INSTANCE, _FIXED_INSTANCE, _SET, _FROZEN_SET, _MEMBER = range(7)
_ALWAYS_AS_THEY_ARE = NUMBERS | {tuple}
_SORTABLE = frozenset({bool, int, str, bytes})
_FIXED = frozenset({"fractions", "ipaddress", "pathlib", "uuid", "zoneinfo"})
"""Modules of classes with immutable instances."""


PROVED: set[Any] = {*LEAVES, bytearray, dict, frozenset, list, set, tuple}
"""Classes that are not stored by field, and whose instances can be read back."""


class InTwoPlaces(Exception):
    """A mutable object occurs in two places, or in itself."""


class ContainsItself(Exception):
    """A state whose fields are written occurs in them, which can only be expressed if the state itself is written."""


class ByValue(pickle.Pickler):
    """Writes values so that equal ones have equal bytes.

    Attributes:
        layouts: The layouts of instances, with their numbers.
        texts: Large texts, with their numbers.
        unproved: The first instance of each class that pickles itself, and of which none has been read back yet.

    Raises:
        InTwoPlaces: A mutable object occurs in two places, which this format cannot express.
    """

    def __init__(self, written: BytesIO, kinds: Kinds) -> None:
        super().__init__(written, 5)
        self.fast = True
        self.layouts: dict[Layout, int] = {}
        self.texts: dict[str | bytes, int] = {}
        self.unproved: dict[type, Any] = {}
        self._kinds = kinds
        self._last: dict[type, tuple[tuple[str, ...], int]] = {}
        # Keeps temporary objects alive too, so that no other object has the same id.
        self._objects: dict[int, Any] = {}
        self._members: dict[int, Any] = {}

    @property
    def tables(self) -> Tables:
        """The tables that the bytes reference."""
        return tuple(self.layouts), tuple(self.texts)

    def persistent_id(self, value: Any) -> Any:
        """The persistent id of a value; None to write the value directly."""
        kind: Any = type(value)
        if kind in _ALWAYS_AS_THEY_ARE:
            return None
        if kind is str or kind is bytes:
            return None if len(value) <= LARGE else (TEXT, self.texts.setdefault(value, len(self.texts)))
        how = _how(kind)
        if how <= _CHANGING and kind not in PROVED:
            self.unproved.setdefault(kind, value)
        if how == _AS_IT_IS:
            return None
        if how in (_CHANGING, _INSTANCE, _SET):
            if id(value) in self._objects:
                raise InTwoPlaces
            self._objects[id(value)] = value
            if how == _CHANGING:
                return None
        if how in (_INSTANCE, _FIXED_INSTANCE):
            return self._taken_apart(kind, value)
        if how == _MEMBER:
            return self._member(kind, value)
        return (SET if how == _SET else FROZEN_SET, *self._in_order(value))

    def _taken_apart(self, kind: type, value: Any) -> tuple[Any, ...]:
        fields = value.__dict__ if lies_in_dict(kind) else fields_by_name(value)
        names, number = self._last.get(kind, (None, 0))
        if names is None or names != tuple(fields):
            layout = layout_of(kind, fields)
            if layout not in self.layouts:
                refuse_lost(self._kinds, kind)
            names, number = layout[3], self.layouts.setdefault(layout, len(self.layouts))
            self._last[kind] = names, number
            return (number, *[fields[name] for name in names])
        return (number, *fields.values())

    def _member(self, kind: type, value: Any) -> Any:
        if id(value) not in self._members:
            refuse_lost(self._kinds, kind)
            self._members[id(value)] = (MEMBER, *member_of(kind, value))
        return self._members[id(value)]

    def _in_order(self, values: Collection[Any]) -> list[Any]:
        kinds = set(map(type, values))
        return sorted(values) if len(kinds) == 1 and kinds <= _SORTABLE else sorted(values, key=self._alone)

    def _alone(self, value: Any) -> tuple[bytes, str]:
        written = BytesIO()
        writer = ByValue(written, self._kinds)
        writer.dump(value)
        return written.getvalue(), repr(writer.tables)


class ByReference(pickle.Pickler):
    """Writes values with pickle's references, and instances by field: object identity is preserved.

    Args:
        written: Where to write.
        kinds: The present classes.
        states: The states whose fields the values are, if they are not states themselves.

    Attributes:
        unproved: See `ByValue`.

    Raises:
        ContainsItself: One of the states occurs in the values.
    """

    def __init__(self, written: BytesIO, kinds: Kinds, states: Sequence[Any] = ()) -> None:
        super().__init__(written, 5)
        self._states = frozenset(map(id, states))
        self.unproved: dict[type, Any] = {}
        self._kinds = kinds
        self._open: dict[int, int] = {}
        self._layouts: dict[Layout, Layout] = {}

    def reducer_override(self, value: Any) -> Any:
        """How an instance or an enum member is written."""
        kind: Any = type(value)
        if isinstance(value, Enum):
            refuse_lost(self._kinds, kind)
            return member, member_of(kind, value)
        if not is_by_field(kind):
            if kind not in PROVED:
                self.unproved.setdefault(kind, value)
            return NotImplemented
        if id(value) in self._states:
            raise ContainsItself
        number = self._open.get(id(value))
        fields = fields_by_name(value)
        layout = self._layout(layout_of(kind, fields), kind)
        if number is not None:
            # The instance contains itself: the reader fills it later.
            return same, (number, layout)
        number = self._open[id(value)] = len(self._open)
        return instance_of, (number, layout, [fields[name] for name in layout[3]])

    def _layout(self, layout: Layout, kind: type) -> Layout:
        if layout not in self._layouts:
            refuse_lost(self._kinds, kind)
        # The same object each time, so that it is written once.
        return self._layouts.setdefault(layout, layout)


def fields_by_name(value: Any) -> Mapping[str, Any]:
    """The fields of an instance or a named tuple."""
    kind: type = type(value)
    found: Mapping[str, Any] = value._asdict() if issubclass(kind, tuple) else fields_of_one(value)
    return found


def layout_of(kind: type, fields: Mapping[str, Any]) -> Layout:
    """The layout of an instance, with the declared fields first."""
    declared = fields_declared(kind)
    names, known = tuple(fields), len(fields)
    if declared is not None:
        known = len(declared.intersection(fields))
        if known < len(fields):
            names = tuple(sorted(fields, key=lambda name: name not in declared))
    return kind.__module__, kind.__qualname__, version_inside(kind), names, known, declared_inside(kind)


def member_of(kind: type, value: Any) -> tuple[str, str, Any, Any]:
    """What identifies a member of an enum."""
    plain = value.value if type(value.value) in LEAVES else None
    return kind.__module__, kind.__qualname__, value.name, plain


def instance_of(number: int, layout: Layout, values: list[Any]) -> Any:
    """A marker in the bytes: the reader creates an instance here."""
    raise NotImplementedError("such values are read by loads")


def same(number: int, layout: Layout) -> Any:
    """A marker in the bytes: the reader returns an instance that it has begun."""
    raise NotImplementedError("such values are read by loads")


def member(module: str, name: str, member: str | None, value: Any) -> Any:
    """A marker in the bytes: the reader returns a member of an enum here."""
    raise NotImplementedError("such values are read by loads")


@lru_cache(maxsize=1024)
def _how(kind: Any) -> int:
    """The way in which instances of a class are written."""
    if issubclass(kind, Enum):
        return _MEMBER
    if kind is set or kind is frozenset:
        return _SET if kind is set else _FROZEN_SET
    if is_by_field(kind):
        frozen = issubclass(kind, tuple) or getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
        return _FIXED_INSTANCE if frozen else _INSTANCE
    return _CHANGING if _can_change(kind) else _AS_IT_IS


def _can_change(kind: type) -> bool:
    """Whether the identity of a class's instances matters."""
    if kind in LEAVES or kind.__module__ in _FIXED or issubclass(kind, (type, FunctionType, BuiltinFunctionType)):
        return False
    return bool(kind.__flags__ & HEAP_TYPE) or kind.__hash__ in (None, object.__hash__)
