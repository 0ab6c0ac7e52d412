"""The values that states hold, as bytes, and back: instances of the application's classes by field, however deep they lie.

Equal values have equal bytes, in whichever worker, so that two attempts at one micro-batch leave the same. Pickle alone does not
have it so: it writes an object once, and refers to it from there on, and whether equal texts are one object is chance.
"""

import pickle
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any

from headrace.pipelines._classes import Upgrade, check_fields, defaults_of, upgrade_of, version_inside
from headrace.pipelines._errors import StateError
from headrace.pipelines._fields import fields_of_one, instance, lies_in_dict
from headrace.pipelines._kinds import Kinds, is_by_field
from headrace.pipelines._trees import LARGE, has_large_twice, is_tree
from headrace.pipelines._writers import MEMBER, SET, TEXT, ByReference, ByValue, InTwoPlaces, Layout, Tables

_WRITERS = ByValue.__module__
_SMALL_BYTES = 2**16
"""Of less, nobody looks whether a large text is in it twice."""


def dumps(value: Any, kinds: Kinds, count: int) -> tuple[bytes, Tables | None]:
    """The states of so many keys as bytes, and what these refer to.

    Raises:
        PicklingError: one cannot be stored; and whatever else its class raises.
    """
    if is_tree(value):
        packed = dumps_plain(value)
        if len(packed) <= max(_SMALL_BYTES, LARGE * count) or not has_large_twice(value):
            return packed, None
    written = BytesIO()
    try:
        writer = ByValue(written, kinds)
        writer.dump(value)
    except InTwoPlaces:
        written = BytesIO()
        ByReference(written, kinds).dump(value)
        return written.getvalue(), None
    return written.getvalue(), writer.tables


def loads(packed: bytes, kinds: Kinds, tables: Tables | None = None, *, by_field: bool = True) -> Any:
    """The values of such bytes.

    Args:
        packed: The bytes.
        kinds: The classes of today.
        tables: What the bytes refer to.
        by_field: Whether instances were stored by field; otherwise they are what pickle made of them.

    Raises:
        StateError: a class is not what it was, and says not how old instances become new ones.
    """
    reader = _Reader(packed, kinds, tables or ((), ()), by_field)
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


class _Reader(pickle.Unpickler):
    """Reads values, and brings instances up to date with their classes."""

    def __init__(self, packed: bytes, kinds: Kinds, tables: Tables, by_field: bool) -> None:
        super().__init__(BytesIO(packed))
        self._kinds, self._by_field = kinds, by_field
        self._layouts, self._texts = tables
        self._begun: dict[int, Any] = {}
        self._by_pickle: list[Any] = []
        self._known: dict[Layout, tuple[type, Upgrade | None, bool]] = {}
        self._own: Mapping[str, Callable[..., Any]] = {
            "instance_of": self._instance,
            "same": self._same,
            "member": self._member,
        }

    def find_class(self, module: str, name: str) -> Any:
        """A class or function that values name."""
        if module == _WRITERS and name in self._own:
            return self._own[name]
        found = self._kinds.find(module, name)
        if self._by_field or not isinstance(found, type) or not is_by_field(found) or issubclass(found, tuple):
            return found
        return _stand_in(found, self._by_pickle)

    def persistent_load(self, written: Any) -> Any:
        """What was written in another form."""
        what, *values = written
        if what >= 0:
            return self._of_fields(self._layouts[what], values)
        if what == TEXT:
            return self._texts[values[0]]
        if what == MEMBER:
            return self._member(*values)
        return set(values) if what == SET else frozenset(values)

    def finish(self) -> None:
        """Brings instances up to date that pickle has made, once all of them are there."""
        for made in self._by_pickle:
            kind: type = type(made)
            fields = fields_of_one(made)
            layout = kind.__module__, kind.__qualname__, 0, tuple(fields), len(fields)
            self._filled(made, layout, fields)

    def _instance(self, number: int, layout: Layout, values: list[Any]) -> Any:
        return self._of_fields(layout, values, self._begun.pop(number, None) if self._begun else None)

    def _of_fields(self, layout: Layout, values: list[Any], made: Any = None) -> Any:
        kind, _, is_simple = self._known.get(layout) or self._now(layout)
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


def _stand_in(kind: type, made: list[Any]) -> type:
    """A class that makes instances of another one, and notes them."""

    def new(_: type) -> Any:
        made.append(object.__new__(kind))
        return made[-1]

    return type(kind.__name__, (), {"__new__": new})
