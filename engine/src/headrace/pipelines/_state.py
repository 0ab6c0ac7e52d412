"""How states are made, stored, and brought up to date when their class has changed.

A state is an instance of an ordinary class, or a plain value such as a number, a list or a dict. Instances are stored as their
fields, so that a class may change: a field that is new takes its default, and what needs more than that is for the class's
`upgrade(version, fields)`, a class method that returns the fields of the present version. `version` is a class attribute, 0
where there is none. Fields lie in columns where all instances have the same, since that takes a fraction of the time and space.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headrace.pipelines._classes import check_fields, defaults_of, upgrade_of, version_of
from headrace.pipelines._errors import StateError
from headrace.pipelines._fields import Columns, Fields, fields_of, instance, instances_of_columns, one_by_one
from headrace.pipelines._kinds import Kinds
from headrace.pipelines._values import dumps, dumps_plain, loads
from headrace.pipelines._writers import Tables

TIMERS = "a state with timers"
"""The layout of a step whose function takes a context: what goes back to a function without one loses its timers."""

_LAID_OUT = "laid out"
_BY_PICKLE, _BY_FIELD = 1, 2
"""How instances inside of states are stored. Those before `_BY_FIELD` are read, too."""
_PLAIN = (bool, int, float, complex, str, bytes, bytearray, list, dict, set, frozenset, tuple, type(None))


@dataclass(frozen=True)
class StateClass:
    """The states of one step.

    Attributes:
        make: Makes the state of a key that is new.
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

    @property
    def kind(self) -> type | None:
        """The class of its instances; None where states are plain values, which are stored as they are."""
        made = self.make if isinstance(self.make, type) else type(self.make())
        return None if issubclass(made, _PLAIN) else made

    @cached_property
    def _first(self) -> Sequence[str]:
        """The names of the fields that a new state has, in their order."""
        return tuple(getattr(self.make(), "__dict__", ()))

    def pack(self, states: Sequence[Any]) -> bytes:
        """States as bytes, in their order.

        Raises:
            StateError: a state holds what cannot be stored.
        """
        kind = self.kind
        try:
            if kind is None:
                packed, tables = dumps(list(states), self._kinds, len(states))
                return dumps_plain((None, 0, packed, _BY_FIELD, tables))
            fields = fields_of(kind, states, self._first)
            plain = (fields.names, fields.count, fields.values) if isinstance(fields, Columns) else fields
            packed, tables = dumps(plain, self._kinds, len(states))
            return dumps_plain((kind.__qualname__, version_of(kind), packed, _BY_FIELD, tables))
        except Exception as error:
            raise StateError(f"{self._where}: a state cannot be stored: {error}; keep plain data in states") from error

    def check(self) -> None:
        """Finds out whether a state that is new can be stored.

        Raises:
            StateError: it cannot.
        """
        StateClass.pack(self, [self.make()])

    def unpack(self, packed: bytes) -> list[Any]:
        """The states of such bytes, of the class as it is now.

        Raises:
            StateError: the class has changed, and says not how old states become new ones.
        """
        document = self._document(packed)
        return self._of_layout(*document) if len(document) == 4 else self._of_instances(*document)

    def laid_out(self, layout: str, columns: Any, states: Sequence[Any]) -> bytes:
        """States as bytes that lie in something larger, which a step keeps for each key.

        Args:
            layout: What the larger things are, in a word that people understand.
            columns: All there is of them beside the states.
            states: The states that lie in all of them, one after the other.
        """
        return dumps_plain((_LAID_OUT, layout, columns, StateClass.pack(self, states)))

    def taken_apart(self, layout: str, packed: bytes) -> tuple[Any, list[Any]]:
        """The columns and the states of such bytes.

        Raises:
            StateError: the step kept something else when they were stored, or the class has changed, and says not how.
        """
        document = self._document(packed)
        if len(document) != 4 or document[1] != layout:
            raise self._another_step(document[1] if len(document) == 4 else "a plain state", layout)
        return document[2], StateClass.unpack(self, document[3])

    def is_laid_out(self, packed: bytes) -> bool:
        """Whether states lie in something larger."""
        return len(self._document(packed)) == 4

    def _document(self, packed: bytes) -> tuple[Any, ...]:
        # What an earlier version has stored may have instances right here, as pickle stores them.
        document: tuple[Any, ...] = loads(packed, self._kinds, by_field=False)
        return document

    def _of_layout(self, _: str, layout: str, columns: Any, states: bytes) -> list[Any]:
        if layout != TIMERS:
            raise self._another_step(layout, "a plain state")
        return StateClass.unpack(self, states)

    def _another_step(self, was: str, is_now: str) -> StateError:
        return StateError(
            f"{self._where}: the checkpoint has {was} for each key, and the step keeps {is_now} now; "
            "give the step another name, and it begins anew"
        )

    def _of_instances(
        self, name: str | None, version: int, stored: Any, form: int = _BY_PICKLE, tables: Tables | None = None
    ) -> list[Any]:
        kind = self.kind
        if form == _BY_FIELD:
            stored = loads(stored, self._kinds, tables)
        if (name is None) != (kind is None):
            is_now = "plain values" if kind is None else f"instances of {kind.__qualname__}"
            raise StateError(f"{self._where}: the checkpoint has states of {name or 'plain values'}, and they are {is_now} now")
        if kind is None:
            return list(stored)
        return self._upgrade(kind, version, Columns(*stored) if isinstance(stored, tuple) else stored)

    def _upgrade(self, kind: type, version: int, stored: Fields) -> list[Any]:
        upgrade = upgrade_of(self._where, kind, version)
        if upgrade is not None:
            stored = [upgrade(version, fields) for fields in one_by_one(stored)]
        defaults = defaults_of(kind)
        if isinstance(stored, Columns):
            check_fields(self._where, kind, stored.names)
            return instances_of_columns(kind, stored, defaults)
        if stored:
            check_fields(self._where, kind, stored[0])
        return [instance(kind, fields, defaults) for fields in stored]
