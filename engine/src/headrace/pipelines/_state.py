"""How states are made, stored, and brought up to date when their class has changed.

A state is an instance of an ordinary class, or a plain value such as a number, a list or a dict. Instances are stored as their
fields, so that a class may change: a field that is new takes its default, and what needs more than that is for the class's
`upgrade(version, fields)`, a class method that returns the fields of the present version. `version` is a class attribute, 0
where there is none. Fields lie in columns where all instances have the same, since that takes a fraction of the time and space.
"""

import dataclasses
import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.pipelines._errors import StateError
from headrace.pipelines._fields import Columns, Fields, fields_of, instance, instances_of_columns, one_by_one

TIMERS = "a state with timers"
"""The layout of a step whose function takes a context: what goes back to a function without one loses its timers."""

_LAID_OUT = "laid out"
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
    def kind(self) -> type | None:
        """The class of its instances; None where states are plain values, which are stored as they are."""
        made = self.make if isinstance(self.make, type) else type(self.make())
        return None if issubclass(made, _PLAIN) else made

    def pack(self, states: Sequence[Any]) -> bytes:
        """States as bytes, in their order.

        Raises:
            StateError: a state holds what cannot be stored.
        """
        kind = self.kind
        try:
            if kind is None:
                return pickle.dumps((None, 0, states), 5)
            fields = fields_of(kind, states)
            plain = (fields.names, fields.count, fields.values) if isinstance(fields, Columns) else fields
            return pickle.dumps((kind.__qualname__, _version(kind), plain), 5)
        except Exception as error:
            raise StateError(f"step {self.step}: a state cannot be stored: {error}; keep plain data in states") from error

    def unpack(self, packed: bytes) -> list[Any]:
        """The states of such bytes, of the class as it is now.

        Raises:
            StateError: the class has changed, and says not how old states become new ones.
        """
        document = pickle.loads(packed)
        return self._of_layout(*document) if len(document) == 4 else self._of_instances(*document)

    def laid_out(self, layout: str, columns: Any, states: Sequence[Any]) -> bytes:
        """States as bytes that lie in something larger, which a step keeps for each key.

        Args:
            layout: What the larger things are, in a word that people understand.
            columns: All there is of them beside the states.
            states: The states that lie in all of them, one after the other.
        """
        return pickle.dumps((_LAID_OUT, layout, columns, StateClass.pack(self, states)), 5)

    def taken_apart(self, layout: str, packed: bytes) -> tuple[Any, list[Any]]:
        """The columns and the states of such bytes.

        Raises:
            StateError: the step kept something else when they were stored, or the class has changed, and says not how.
        """
        document = pickle.loads(packed)
        if len(document) != 4 or document[1] != layout:
            raise self._another_step(document[1] if len(document) == 4 else "a plain state", layout)
        return document[2], StateClass.unpack(self, document[3])

    def _of_layout(self, _: str, layout: str, columns: Any, states: bytes) -> list[Any]:
        if layout != TIMERS:
            raise self._another_step(layout, "a plain state")
        return StateClass.unpack(self, states)

    def _another_step(self, was: str, is_now: str) -> StateError:
        return StateError(
            f"step {self.step}: the checkpoint has {was} for each key, and the step keeps {is_now} now; "
            "give the step another name, and it begins anew"
        )

    def _of_instances(self, name: str | None, version: int, stored: Any) -> list[Any]:
        kind = self.kind
        if (name is None) != (kind is None):
            is_now = "plain values" if kind is None else f"instances of {kind.__qualname__}"
            raise StateError(
                f"step {self.step}: the checkpoint has states of {name or 'plain values'}, and they are {is_now} now"
            )
        if kind is None:
            return list(stored)
        return self._upgrade(kind, version, Columns(*stored) if isinstance(stored, tuple) else stored)

    def _upgrade(self, kind: type, version: int, stored: Fields) -> list[Any]:
        if version != _version(kind):
            upgrade = getattr(kind, "upgrade", None)
            if upgrade is None:
                raise StateError(
                    f"step {self.step}: the checkpoint has states of version {version} of {kind.__qualname__}, which is at "
                    f"version {_version(kind)} now; give it a class method upgrade(version, fields) that returns the new fields"
                )
            stored = [upgrade(version, fields) for fields in one_by_one(stored)]
        defaults = _defaults(kind)
        if isinstance(stored, Columns):
            self._check(kind, stored.names)
            return instances_of_columns(kind, stored, defaults)
        if stored:
            self._check(kind, stored[0])
        return [instance(kind, fields, defaults) for fields in stored]

    def _check(self, kind: type, fields: Iterable[str]) -> None:
        """All states of a version have the same fields, where the class says which."""
        if not dataclasses.is_dataclass(kind):
            return
        known, there = {field.name for field in dataclasses.fields(kind)}, set(fields)
        lost, missing = there - known, known - there - _defaults(kind).keys()
        if lost or missing:
            raise StateError(
                f"step {self.step}: stored states of {kind.__qualname__} "
                + " and ".join(
                    [f"have {_names(lost)}, which it no longer has"] * bool(lost)
                    + [f"lack {_names(missing)}, which has no default"] * bool(missing)
                )
                + "; raise its version and give it a class method upgrade(version, fields) that returns the new fields"
            )


def _defaults(kind: type) -> dict[str, Callable[[], Any]]:
    """What makes the default of each field that has one."""
    if not dataclasses.is_dataclass(kind):
        return {}
    made: dict[str, Callable[[], Any]] = {}
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            made[field.name] = lambda default=field.default: default  # type: ignore[misc]
        elif field.default_factory is not dataclasses.MISSING:
            made[field.name] = field.default_factory
    return made


def _version(kind: type) -> int:
    return int(getattr(kind, "version", 0))


def _names(names: set[str]) -> str:
    return ", ".join(sorted(names))
