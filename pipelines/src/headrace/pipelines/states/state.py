"""Creates and stores states, and upgrades them if their class has changed.

A state is an instance of an ordinary class, or a plain value such as a number, a list or a dict. Instances are stored by field,
so a class may change: a new field has its default, and other changes need a class method `upgrade(version, fields)` that returns
the fields of the present version. `version` is a class attribute, by default 0. If all instances have the same fields, they are
stored in columns, which takes a fraction of the time and space.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headrace.pipelines._errors import NotStored, StateError
from headrace.pipelines._errors import text_of as text_of_error
from headrace.pipelines.states.classes import check_fields, upgrade_of, version_of
from headrace.pipelines.states.declared import (
    Declared,
    Types,
    changed,
    check_kept,
    check_types,
    declared,
    defaults_for,
    text_of,
    types_of,
)
from headrace.pipelines.states.fields import Columns, Fields, fields_of, instance, instances_of_columns, one_by_one
from headrace.pipelines.states.kinds import Kinds, is_by_field
from headrace.pipelines.states.types import fits
from headrace.pipelines.states.values import dumps, dumps_plain, loads
from headrace.pipelines.states.writers import ContainsItself, Tables

TIMERS = "a state with timers"
"""The layout of states with timers. If the function no longer has a context, the timers are lost."""

_LAID_OUT = "laid out"
_PLAIN = (bool, int, float, complex, str, bytes, bytearray, list, dict, set, frozenset, tuple, type(None))


@dataclass(frozen=True)
class StateClass:
    """The states of one step.

    Attributes:
        make: Creates the state of a new key.
        step: The step's name, for errors.
    """

    make: Callable[[], Any]
    step: str

    @property
    def _where(self) -> str:
        return f"step {self.step}"

    @cached_property
    def _kinds(self) -> Kinds:
        return Kinds(self._where, self.make)

    @cached_property
    def _class_of_new(self) -> type:
        """The class of a new state."""
        return type(self.make())

    @property
    def kind(self) -> type | None:
        """The class of the instances whose fields are stored; None if states are stored as values."""
        made = self._class_of_new
        return made if is_by_field(made) and not issubclass(made, tuple) else None

    @cached_property
    def _types(self) -> Types | None:
        """The fields that the class declares; None if they are unknown."""
        return types_of(self._class_of_new, self.make)

    @cached_property
    def _first(self) -> Sequence[str]:
        """The names of the fields of a new state, in order."""
        return tuple(getattr(self.make(), "__dict__", ()))

    def pack(self, states: Sequence[Any]) -> bytes:
        """Serialises states, in order.

        Raises:
            StateError: A state contains something that cannot be stored.
        """
        kind = self.kind
        try:
            # A state that is of another class, such as one that has replaced its own, is stored with its class.
            if kind is None or not set(map(type, states)) <= {kind}:
                return self._packed_values(states)
            fields = fields_of(kind, states, self._first)
            plain = (fields.names, fields.count, fields.values) if isinstance(fields, Columns) else fields
            try:
                packed, tables = dumps(plain, self._kinds, len(states), states)
            except ContainsItself:
                return self._packed_values(states)
            return dumps_plain((kind.__qualname__, version_of(kind), packed, tables, declared(self._types)))
        except Exception as error:
            raise NotStored(self.step, text_of_error(error)) from error

    def _packed_values(self, states: Sequence[Any]) -> bytes:
        packed, tables = dumps(list(states), self._kinds, len(states))
        return dumps_plain((None, 0, packed, tables, text_of(self._class_of_new)))

    def check(self) -> None:
        """Checks that a new state can be stored and read back.

        Raises:
            StateError: It cannot.
        """
        made = self.make()
        packed = StateClass.pack(self, [made])
        try:
            (again,) = StateClass.unpack(self, packed)
        except StateError as error:
            raise StateError(f"{self._where}: a state cannot be read back: {error}; keep plain data in states") from error
        if type(again) is not type(made):
            raise StateError(
                f"{self._where}: a state of class {type(made).__qualname__} is read back as one of class "
                f"{type(again).__qualname__}; correct how the class pickles itself"
            )

    def unpack(self, packed: bytes) -> list[Any]:
        """Deserialises states, upgraded to the present class.

        Raises:
            StateError: The class has changed, and has no suitable `upgrade`.
        """
        document = self._document(packed)
        return self._of_layout(*document) if len(document) == 4 else self._of_instances(*document)

    def laid_out(self, layout: str, columns: Any, states: Sequence[Any]) -> bytes:
        """Serialises states, with further columns of a step.

        Args:
            layout: A description of the columns, which identifies them.
            columns: The further columns.
            states: The states.

        Raises:
            StateError: A state cannot be stored.
        """
        return dumps_plain((_LAID_OUT, layout, columns, StateClass.pack(self, states)))

    def taken_apart(self, layout: str, packed: bytes) -> tuple[Any, list[Any]]:
        """Deserialises the further columns and the states.

        Raises:
            StateError: The bytes have another layout, or the class has changed and has no suitable `upgrade`.
        """
        document = self._document(packed)
        if len(document) != 4 or document[1] != layout:
            raise self._another_step(document[1] if len(document) == 4 else "a plain state", layout)
        return document[2], StateClass.unpack(self, document[3])

    def is_laid_out(self, packed: bytes) -> bool:
        """Whether the bytes have further columns."""
        return len(self._document(packed)) == 4

    def _document(self, packed: bytes) -> tuple[Any, ...]:
        document: tuple[Any, ...] = loads(packed, self._kinds)
        return document

    def _of_layout(self, _: str, layout: str, columns: Any, states: bytes) -> list[Any]:
        if layout != TIMERS:
            raise self._another_step(layout, "a plain state")
        return StateClass.unpack(self, states)

    def _another_step(self, was: str, is_now: str) -> StateError:
        return StateError(
            f"{self._where}: the checkpoint has {was} for each key, and the step keeps {is_now} now; "
            "give the step another name to start without states"
        )

    def _of_instances(self, name: str | None, version: int, packed: bytes, tables: Tables | None, declared: Any) -> list[Any]:
        stored = loads(packed, self._kinds, tables)
        if name is None:
            return self._of_values(list(stored), declared)
        made = self._class_of_new
        if not is_by_field(made) and made.__qualname__ != name:
            raise self._another_class(name, _in_words(made))
        return self._upgrade(made, version, Columns(*stored) if isinstance(stored, tuple) else stored, declared)

    def _of_values(self, states: list[Any], was: str) -> list[Any]:
        """States that were stored as values, whose class must not have changed since.

        An accumulator may be of another class than a new one.
        """
        made = self._class_of_new
        if was != text_of(made) and not all(fits(state, made) for state in states):
            raise self._another_class(f"class {was}", _in_words(made))
        return states

    def _another_class(self, was: str, is_now: str) -> StateError:
        return StateError(
            f"{self._where}: the checkpoint has states of {was}, and they are now {is_now}; "
            "give the step another name to start without states"
        )

    def _upgrade(self, kind: type, version: int, stored: Fields, declared: Declared | None) -> list[Any]:
        upgrade = upgrade_of(self._where, kind, version)
        if upgrade is not None:
            stored, declared = [upgrade(version, fields) for fields in one_by_one(stored)], None
        defaults, differing = defaults_for(kind, self.make, declared), changed(self._types, declared)
        if isinstance(stored, Columns):
            self._check(kind, stored.names, declared)
            check_types(self._where, kind, differing, dict(zip(stored.names, stored.values, strict=True)))
            return instances_of_columns(kind, stored, defaults)
        for names in {tuple(fields) for fields in stored}:
            self._check(kind, names, declared)
        for fields in stored if differing else ():
            check_types(self._where, kind, differing, {name: (value,) for name, value in fields.items()})
        return [instance(kind, fields, defaults) for fields in stored]

    def _check(self, kind: type, names: Sequence[str], declared: Declared | None) -> None:
        check_fields(self._where, kind, names)
        check_kept(self._where, kind, self._types, declared, names)


def _in_words(kind: type) -> str:
    return "plain values" if issubclass(kind, _PLAIN) else f"instances of {kind.__qualname__}"
