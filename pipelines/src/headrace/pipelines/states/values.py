"""Serialises the values in states: instances of the application's classes are stored by field, at any depth.

Equal values have equal bytes, in any worker, so two attempts at one micro-batch write the same. Pickle alone does not guarantee
this: it writes an object once, and references it afterwards, and whether equal texts are the same object is undefined.
"""

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from headrace.pipelines._errors import StateError
from headrace.pipelines.states.classes import Defaults, Upgrade, check_fields, upgrade_of, version_inside
from headrace.pipelines.states.declared import changed, check_kept, check_types, defaults_for, types_inside
from headrace.pipelines.states.fields import instance, lies_in_dict, new_of
from headrace.pipelines.states.kinds import Kinds
from headrace.pipelines.states.trees import LARGE, has_large_twice, is_tree
from headrace.pipelines.states.writers import MEMBER, PROVED, SET, TEXT, ByReference, ByValue, InTwoPlaces, Layout, Tables

_WRITERS = ByValue.__module__
"""The module of the functions that stored values name."""
_SMALL_BYTES = 2**16
"""Smaller values are not searched for duplicate large texts."""


def dumps(value: Any, kinds: Kinds, count: int, states: Sequence[Any] = ()) -> tuple[bytes, Tables | None]:
    """The states of `count` keys as bytes, and the tables that these reference.

    Args:
        value: The states, or their fields.
        kinds: The present classes.
        count: The number of states.
        states: The states, if the value is their fields.

    Raises:
        ContainsItself: A state occurs in its own fields, or in the fields of another.
        PicklingError: A value cannot be stored. A class may raise other errors.
    """
    if is_tree(value):
        packed = dumps_plain(value)
        if len(packed) <= max(_SMALL_BYTES, LARGE * count) or not has_large_twice(value):
            return packed, None
    packed, tables, unproved = _written(value, kinds, states)
    # The innermost first, which is what the error should name.
    for kind, first in reversed(unproved.items()):
        _prove(kind, first, kinds)
    return packed, tables


def _written(value: Any, kinds: Kinds, states: Sequence[Any] = ()) -> tuple[bytes, Tables | None, dict[type, Any]]:
    """A value as bytes, their tables, and the first instance of each class that pickles itself and is not proved yet."""
    written = BytesIO()
    try:
        writer = ByValue(written, kinds)
        writer.dump(value)
    except InTwoPlaces:
        written = BytesIO()
        by_reference = ByReference(written, kinds, states)
        by_reference.dump(value)
        return written.getvalue(), None, by_reference.unproved
    return written.getvalue(), writer.tables, writer.unproved


def _prove(kind: type, value: Any, kinds: Kinds) -> None:
    """Reads an instance back, once for each class in a process: a class may pickle itself such that nobody can read it.

    Raises:
        PicklingError: It cannot be read back.
    """
    packed, tables, _ = _written(value, kinds)
    try:
        loads(packed, kinds, tables)
    except StateError as error:
        raise pickle.PicklingError(f"a {kind.__module__}.{kind.__qualname__} could not be read back: {error}") from error
    PROVED.add(kind)


def loads(packed: bytes, kinds: Kinds, tables: Tables | None = None) -> Any:
    """The values from bytes.

    Args:
        packed: The bytes.
        kinds: The present classes.
        tables: The tables that the bytes reference.

    Raises:
        StateError: A class has changed and has no suitable `upgrade`, or no longer exists.
    """
    try:
        value = _Reader(packed, kinds, tables or ((), ())).load()
    except StateError:
        raise
    except Exception as error:
        raise StateError(
            f"{kinds.where}: stored states do not match the present classes: {type(error).__name__}: {error}"
        ) from error
    return value


def dumps_plain(value: Any) -> bytes:
    """Serialises values whose object identity does not matter, such as keys."""
    written = BytesIO()
    pickler = pickle.Pickler(written, 5)
    pickler.fast = True
    pickler.dump(value)
    return written.getvalue()


@dataclass(frozen=True, slots=True)
class _Present:
    """The present class of instances that were stored with a layout.

    Attributes:
        kind: The class.
        upgrade: Its `upgrade`, if it has another version.
        defaults: Creates fields that may be missing.
        differing: The fields whose type has changed, from `changed`.
        is_simple: Whether the fields can be copied to the instance's dict.
    """

    kind: type
    upgrade: Upgrade | None
    defaults: Defaults
    differing: Mapping[str, tuple[str, Any]]
    is_simple: bool


class _Reader(pickle.Unpickler):
    """Reads values, and upgrades instances to their present classes."""

    def __init__(self, packed: bytes, kinds: Kinds, tables: Tables) -> None:
        super().__init__(BytesIO(packed))
        self._kinds = kinds
        self._layouts, self._texts = tables
        self._open: dict[int, Any] = {}
        self._present: dict[tuple[Any, ...], _Present] = {}
        self._own: Mapping[str, Callable[..., Any]] = {
            "instance_of": self._instance,
            "same": self._same,
            "member": self._member,
        }

    def find_class(self, module: str, name: str) -> Any:
        """Finds a class or function that the bytes name."""
        if module == _WRITERS and name in self._own:
            return self._own[name]
        return self._kinds.find(module, name)

    def persistent_load(self, written: Any) -> Any:
        """The value of a persistent id."""
        what, *values = written
        if what >= 0:
            return self._of_fields(self._layouts[what], values)
        if what == TEXT:
            return self._texts[values[0]]
        if what == MEMBER:
            return self._member(*values)
        return set(values) if what == SET else frozenset(values)

    def _instance(self, number: int, layout: Layout, values: list[Any]) -> Any:
        return self._of_fields(layout, values, self._open.pop(number, None) if self._open else None)

    def _of_fields(self, layout: Layout, values: list[Any], target: Any = None) -> Any:
        present = self._present.get(layout) or self._now(layout)
        fields = dict(zip(layout[3], values, strict=True))
        if present.is_simple and target is None:
            target = new_of(present.kind)(present.kind)
            target.__dict__.update(fields)
            return target
        return self._filled(target, layout, fields)

    def _filled(self, target: Any, layout: Layout, fields: dict[str, Any]) -> Any:
        present = self._present.get(layout) or self._now(layout)
        kind, where = present.kind, self._kinds.where
        if present.upgrade is None:
            check_types(where, kind, present.differing, {name: (value,) for name, value in fields.items()})
        else:
            fields = present.upgrade(layout[2], fields)
            check_fields(where, kind, fields.keys() - set(layout[3][layout[4] :]))
        if issubclass(kind, tuple):
            return kind(**fields)
        return instance(kind, fields, present.defaults, target)

    def _now(self, layout: Layout) -> "_Present":
        """The present class of a layout."""
        module, name, version, names, known, stored = layout
        kind, where = self._kinds.find(module, name), self._kinds.where
        upgrade = None if version == version_inside(kind) else upgrade_of(where, kind, version)
        declared = stored if upgrade is None else None
        types = types_inside(kind)
        if upgrade is None:
            check_fields(where, kind, names[:known])
            check_kept(where, kind, types, declared, names)
        defaults, differing = defaults_for(kind, kind, declared), changed(types, declared)
        is_simple = upgrade is None and lies_in_dict(kind) and not differing and defaults.keys() <= set(names)
        self._present[layout] = present = _Present(kind, upgrade, defaults, differing, is_simple)
        return present

    def _same(self, number: int, layout: Layout) -> Any:
        if number not in self._open:
            kind = self._kinds.find(layout[0], layout[1])
            self._open[number] = new_of(kind)(kind)
        return self._open[number]

    def _member(self, module: str, name: str, member: str | None, value: Any) -> Any:
        kind = self._kinds.find(module, name)
        if member in kind.__members__:
            return kind.__members__[member]
        try:
            return kind(value)
        except ValueError:
            raise StateError(
                f"{self._kinds.where}: stored states contain {name}.{member}, with the value {value!r}, and {name} no longer has "
                "this member; add one of that name or value"
            ) from None
